"""``docs/parity.md``, the code and the names of the reference systems say the same."""

import inspect
import os
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

import memoriale
from memoriale.domain.scoring import DEFAULT_WEIGHTS
from memoriale.domain.stores.context import WEIGHTS
from tests.parity.code import NOTHING, default_of, find, members, methods, pep8, values
from tests.parity.listing import as_toml, read_all
from tests.parity.table import STATES, Row, read_table, spans

HERE: Final = Path(__file__).parent
DOCUMENTS: Final = "REFERENCE_DOCUMENTS"
LIST: Final = tomllib.loads((HERE / "reference.toml").read_text())
BEHAVIOUR: Final = tomllib.loads((HERE / "behaviour.toml").read_text())
ROWS: Final = read_table(HERE.parents[1] / "docs" / "parity.md")
BY_NAME: Final = {(row.system, row.reference): row for row in ROWS if row.reference}
NAMES: Final = [(system, name) for system in LIST for name in LIST[system]["names"]]
OWN_ROW: Final = frozenset({"function", "class", "model", "type", "method", "error", "name"})
STATED: Final = [
    (system, name, default)
    for source in (LIST, BEHAVIOUR)
    for system in source
    for name, default in source[system]["defaults"].items()
]


def row_of(system: str, name: str) -> Row:
    """The row of a name, or that of the nearest name above it."""
    above = name
    while (system, above) not in BY_NAME:
        above, _, _ = above.rpartition(".")
        assert above, f"docs/parity.md has no row for {name} of system {system}"
    return BY_NAME[system, above]


def known(row: Row) -> dict[str, Any]:
    """The members of everything that a row says is the name's counterpart."""
    return {k: v for here in row.here for k, v in members(find(here)).items()}


def test_the_list_is_made_from_the_documents() -> None:
    """The same documents give the committed list again."""
    folder = os.environ.get(DOCUMENTS)
    if not folder:
        pytest.skip(f"set {DOCUMENTS} to the folder of the reference documents")
    assert as_toml(read_all(Path(folder))) == (HERE / "reference.toml").read_text()


def test_the_list_is_whole() -> None:
    """System A has 52 exports, which its list counts apart from the types that it only uses."""
    exports = [
        name
        for name, kind in LIST["A"]["names"].items()
        if "." not in name and kind in ("function", "class", "model", "type")
    ]
    only_used = exports[exports.index("UserProfileData") + 1 :]
    assert len(exports) - len(only_used) == 52
    assert {"LearningScope", "ProcedureScope", "ToolDef", "Session"} <= set(only_used)


def test_every_row_says_how_it_compares() -> None:
    """Each name has one row and one of three states; all but ``same`` tell why."""
    names = [(row.system, row.reference) for row in ROWS if row.reference]
    assert len(names) == len(set(names))
    assert set(names) <= set(NAMES)
    for row in ROWS:
        where = f"docs/parity.md:{row.line}"
        assert row.here or row.state == "differs", where
        assert bool(row.why) == (row.state != "same"), where
        if row.reference:
            assert row.state in STATES, where


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.line}")
def test_what_a_row_names_exists(row: Row) -> None:
    """Every counterpart is a public name of ``memoriale``; the same name is called the same."""
    for here in row.here:
        find(here)
    for argument in row.arguments:
        call, _, name = argument.rpartition(".")
        assert name in members(find(call))
    if row.reference and row.state in ("same", "better"):
        called = {here.rpartition(".")[2] for here in (*row.here, *row.arguments)}
        assert pep8(row.reference.rpartition(".")[2]) in called


@pytest.mark.parametrize(("system", "name"), NAMES, ids=[f"{s} {n}" for s, n in NAMES])
def test_every_reference_name_is_here_or_explained(system: str, name: str) -> None:
    """Each name, member, field, option, value and result has a row or is there in PEP 8 form."""
    kind, row = LIST[system]["names"][name], row_of(system, name)
    if row.reference == name:
        return
    assert kind not in OWN_ROW, f"docs/parity.md has no row for {name}"
    above, _, last = name.rpartition(".")
    if kind == "value":
        assert last in {v for here in row_values(row, above) for v in here}
    elif kind != "constructor":
        assert pep8(last) in known(row), f"{pep8(last)} is not in {row.here} ({name})"


def row_values(row: Row, above: str) -> list[set[object]]:
    """The choices of the counterparts of a type or of a field."""
    if row.reference == above:
        return [values(find(here)) for here in row.here]
    field = pep8(above.rpartition(".")[2])
    return [values(find(f"{here}.{field}")) for here in row.here]


@pytest.mark.parametrize(
    ("system", "name", "default"), STATED, ids=[f"{s} {n}" for s, n, _ in STATED]
)
def test_every_stated_default_is_ours(system: str, name: str, default: object) -> None:
    """What the reference does where nothing is given, we do, unless its row says why not."""
    assert name in LIST[system]["names"]
    row = row_of(system, name)
    if row.state == "differs" and row.reference == name:
        return
    if row.reference == name:
        found = [d for here in row.here if (d := default_of(here)) is not NOTHING]
    else:
        found = [known(row).get(pep8(name.rpartition(".")[2]), NOTHING)]
    assert [plain(one, default) for one in found] == [plain(default, default)]


def plain(value: object, like: object) -> object:
    """A default in the form that the list writes it in."""
    if isinstance(like, bool):
        return bool(value)
    return "none" if value is None else [*value] if isinstance(value, tuple) else value


def test_weights_are_those_of_the_reference() -> None:
    """Scores and sections of a prompt are weighted as there."""
    assert dict(DEFAULT_WEIGHTS) == BEHAVIOUR["A"]["weights"]
    assert dict(WEIGHTS) == BEHAVIOUR["A"]["sections"]


OURS: Final = sorted(
    {
        pep8(name)
        for name, kind in LIST["A"]["names"].items()
        if kind in ("class", "model") and hasattr(memoriale, name)
    }
)


@pytest.mark.parametrize("name", OURS)
def test_what_only_exists_here_is_told(name: str) -> None:
    """Methods, fields and options that the reference lacks stand on the page too."""
    found, told = find(name), {here for row in ROWS for here in (*row.here, *row.arguments)}
    of_reference = {
        pep8(known.rpartition(".")[2])
        for known in LIST["A"]["names"]
        if known.startswith(f"{name}.")
    }
    about = {span for row in ROWS if name in row.here for span in spans(row.why)}
    if inspect.isclass(found):
        missing = {m for m in methods(found) if f"{name}.{m}" not in told}
        fields = {m for m in members(found) if m not in of_reference | about}
        assert missing == set()
        assert {f for f in fields if f"{name}.{f}" not in told} == set()
