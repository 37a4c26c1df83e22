"""In which rows a recall view differs from one that was posted afresh."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from memoriale.projections.kind import Discrepancy
from memoriale.projections.recall.contents import LEAST_COSINE
from memoriale.projections.recall.schema import PASSAGES, SENTINEL_KEY, VECTOR, arrow_schema
from memoriale.projections.recall.view import RecallView

_KEYS_AT_ONCE: Final = 2_048
_OF_VECTORS: Final = ("model", VECTOR, PASSAGES)
_FILES_AT_REST: Final = 24
"""A view at rest is tidied from so many small files on, before a posting would have to do it."""


def discrepancies(live: RecallView, expected: RecallView) -> Iterator[Discrepancy]:
    """
    The rows in which a view differs, in key order. Every column is compared, vectors by their
    cosine.

    Args:
        live: The view in question.
        expected: One that was posted afresh from the same log, with the same model.
    """
    stop = max(live.position(), expected.position())
    names = arrow_schema(expected.table.width).names
    pairs = zip(
        live.table.ranges(names, stop, _KEYS_AT_ONCE),
        expected.table.ranges(names, stop, _KEYS_AT_ONCE),
        strict=True,
    )
    for mine, wanted in pairs:
        yield from _in_range(mine, wanted)


def holds_rows_beyond(view: RecallView) -> bool:
    """Whether there are rows of events that the view has not applied by its position."""
    position = view.position()
    beyond = f"key >= 0 AND (key >= {position} OR seq >= {position})"
    return bool(view.table.read(beyond, ("key",)).num_rows)


def tidy(view: RecallView) -> bool:
    """Joins small files and brings indexes up, if there are some. Returns whether it did."""
    if view.table.small_files() < _FILES_AT_REST:
        return False
    view.table.optimize()
    return True


def _in_range(mine: Any, wanted: Any) -> Iterator[Discrepancy]:
    plain = [name for name in wanted.column_names if name not in _OF_VECTORS]
    if mine.select(plain).equals(wanted.select(plain)):
        places = list(range(wanted.num_rows))
        yield from _wrong_vectors(mine, wanted, places, places)
        return
    left, right = _places(mine), _places(wanted)
    pairs: list[tuple[int, int]] = []
    for key in sorted(left.keys() | right.keys()):
        if key not in right:
            yield from (Discrepancy("orphaned", _name(key)) for _ in left[key])
        elif key not in left:
            yield Discrepancy("missing", _name(key))
        elif len(left[key]) > 1:
            yield Discrepancy("duplicated", _name(key))
        else:
            pairs.append((left[key][0], right[key][0]))
    for place, other in pairs:
        differing = [n for n in plain if mine[n][place].as_py() != wanted[n][other].as_py()]
        if differing:
            yield Discrepancy("stale", _name(mine["key"][place].as_py()), ", ".join(differing))
    yield from _wrong_vectors(mine, wanted, [a for a, _ in pairs], [b for _, b in pairs])


def _places(part: Any) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for place, key in enumerate(part["key"].to_pylist()):
        places.setdefault(key, []).append(place)
    return places


def _name(key: int) -> str:
    return "the position" if key == SENTINEL_KEY else f"version {key}"


def _wrong_vectors(
    mine: Any, wanted: Any, left: Sequence[int], right: Sequence[int]
) -> Iterator[Discrepancy]:
    """The rows, given by their places in both tables, whose vectors are not those wanted."""
    import numpy
    import pyarrow as pa

    if not left:
        return
    mine, wanted = mine.take(pa.array(left)), wanted.take(pa.array(right))
    a, b = _matrix(mine), _matrix(wanted)
    with numpy.errstate(invalid="ignore", over="ignore"):
        alike = _cosines(a, b) >= LEAST_COSINE
    present = [part[VECTOR].is_valid().to_numpy() for part in (mine, wanted)]
    same = numpy.where(present[1], present[0] & alike, ~present[0])
    models = [part["model"].to_pylist() for part in (mine, wanted)]
    passages = [part[PASSAGES].to_pylist() for part in (mine, wanted)]
    keys = mine["key"].to_pylist()
    for place, key in enumerate(keys):
        details = [] if same[place] else ["vector"]
        if models[0][place] != models[1][place]:
            details.append("model")
        if not _alike(passages[0][place], passages[1][place], a.shape[1]):
            details.append("passages")
        if details:
            yield Discrepancy("vectors", _name(key), ", ".join(details))


def _matrix(part: Any) -> Any:
    """The vectors of a table as an array [rows, width]; zeros where a row has none."""
    import numpy

    column = part[VECTOR].combine_chunks()
    width = column.type.list_size
    filled = column.fill_null([0.0] * width) if column.null_count else column
    flat = filled.flatten().to_numpy(zero_copy_only=False)
    return flat.astype(numpy.float64).reshape(-1, width)


def _cosines(a: Any, b: Any) -> Any:
    import numpy

    lengths = numpy.linalg.norm(a, axis=1) * numpy.linalg.norm(b, axis=1)
    lengths[lengths == 0] = 1
    return numpy.einsum("ij,ij->i", a, b) / lengths


def _alike(mine: list[float] | None, wanted: list[float] | None, width: int) -> bool:
    import numpy

    if mine is None or wanted is None:
        return mine is wanted
    if len(mine) != len(wanted) or len(wanted) % width:
        return False
    a, b = (numpy.array(side, dtype=numpy.float64).reshape(-1, width) for side in (mine, wanted))
    known = b.any(axis=1)
    with numpy.errstate(invalid="ignore", over="ignore"):
        alike = numpy.where(known, _cosines(a, b) >= LEAST_COSINE, ~a.any(axis=1))
    return bool(alike.all())
