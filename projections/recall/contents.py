"""What a table holds, for comparison: a digest of its columns, and its vectors."""

import hashlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from memoriale.projections.recall.schema import COLUMNS, SENTINEL_KEY, VECTOR
from memoriale.projections.recall.table import VersionTable
from memoriale.projections.view import Digest

LEAST_COSINE: Final = 0.999
"""Of two vectors that one model made of one text, perhaps on two machines."""
MOST_LINES: Final = 10
_DIGESTED: Final = tuple(name for name in COLUMNS if name != "seq")


def content_digest(table: VersionTable, position: int, size: int) -> Digest:
    """
    Digest of every version in key order.

    Args:
        table: Where the rows are.
        position: How many events they come from; part of the digest.
        size: Keys read at once; part of the digest, since columns are hashed piece by piece.
    """
    total, rows = hashlib.sha256(position.to_bytes(8, "big")), 0
    for part in table.ranges(_DIGESTED, position, size):
        rows += part.num_rows
        for name in _DIGESTED:
            _hash_column(total, part[name].combine_chunks())
    return Digest(total.hexdigest(), rows - 1)


def differing_vectors(one: VersionTable, other: VersionTable, stop: int, size: int) -> int:
    """Number of keys whose vectors differ between two tables, or that one of them lacks."""
    columns = ("key", "model", VECTOR)
    pairs = zip(one.ranges(columns, stop, size), other.ranges(columns, stop, size), strict=True)
    return sum(_differing(mine, theirs) for mine, theirs in pairs)


def differences(one: VersionTable, other: VersionTable, stop: int, size: int) -> list[str]:
    """
    The first few rows that differ between two tables: which key, and which columns. Values are
    not told, they are content.
    """
    lines: list[str] = []
    pairs = zip(one.ranges(_DIGESTED, stop, size), other.ranges(_DIGESTED, stop, size), strict=True)
    for mine, theirs in pairs:
        if not mine.equals(theirs):
            lines.extend(islice(_row_differences(mine, theirs), MOST_LINES - len(lines)))
        if len(lines) == MOST_LINES:
            break
    return lines


def _row_differences(mine: Any, theirs: Any) -> Iterator[str]:
    left, right = ({row["key"]: row for row in part.to_pylist()} for part in (mine, theirs))
    for key in sorted(left.keys() | right.keys()):
        if key not in left or key not in right:
            yield f"version {key} is in one of the two only"
        elif left[key] != right[key]:
            names = [name for name in _DIGESTED if left[key][name] != right[key][name]]
            yield f"version {key} differs in {', '.join(names)}"


def _differing(mine: Any, theirs: Any) -> int:
    import numpy

    keys = [part["key"].to_numpy() for part in (mine, theirs)]
    _, left, right = numpy.intersect1d(*keys, return_indices=True)
    alone = sum(int((k != SENTINEL_KEY).sum()) for k in keys) - 2 * len(left)
    alone += 2 * int((keys[0][left] == SENTINEL_KEY).sum())
    a, b = _unit_rows(mine)[left], _unit_rows(theirs)[right]
    cosine = numpy.einsum("ij,ij->i", a, b)
    absent = ~a.any(axis=1) & ~b.any(axis=1)
    models = [numpy.array(part["model"].to_pylist(), dtype=object) for part in (mine, theirs)]
    same_model = models[0][left] == models[1][right]
    return alone + int((~(absent | ((cosine >= LEAST_COSINE) & same_model))).sum())


def _unit_rows(part: Any) -> Any:
    """Vectors [rows, width] of length 1; zeros where a row has none."""
    import numpy

    column = part[VECTOR].combine_chunks()
    values = column.fill_null([0.0] * column.type.list_size) if column.null_count else column
    flat = values.flatten().to_numpy(zero_copy_only=False).astype(numpy.float64)
    rows = flat.reshape(len(column), column.type.list_size)
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return rows / lengths


def _hash_column(total: Any, column: Any) -> None:
    """Adds which values are null, the sizes of texts and lists, and all values."""
    import numpy
    import pyarrow as pa
    import pyarrow.compute as pc

    valid = numpy.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=numpy.uint8)
    total.update(len(column).to_bytes(8, "big"))
    total.update(valid.tobytes())
    present = column.drop_null()
    if pa.types.is_list(column.type):
        sizes = pc.list_value_length(present).to_numpy(zero_copy_only=False)
        total.update(sizes.astype(">i8").tobytes())
        _hash_column(total, present.flatten())
    elif pa.types.is_string(column.type):
        sizes = pc.binary_length(present).to_numpy(zero_copy_only=False)
        total.update(sizes.astype(">i8").tobytes())
        _hash_text(total, present)
    else:
        total.update(
            present.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(">i8").tobytes()
        )


def _hash_text(total: Any, column: Any) -> None:
    import numpy

    if len(column) == 0:
        return
    _, offsets, data = column.buffers()
    bounds = numpy.frombuffer(offsets, dtype=numpy.int32)[column.offset :][: len(column) + 1]
    total.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
