"""What ``docs/parity.md`` says is not taken here is refused, not accepted and ignored."""

import inspect
from pathlib import Path
from typing import Any, Final

import pydantic
import pytest

import memoriale
from tests.parity.code import find, pep8
from tests.parity.table import Row, read_table

PAGE: Final = Path(__file__).parents[2] / "docs" / "parity.md"
BELOW: Final = {"AgentMemoryOptions": "agent_memory"}
"""What stands for a name of the reference that has no counterpart of its own name."""
ABSENT: Final = [
    row
    for row in read_table(PAGE)
    if row.reference and (not row.here or row.reference.endswith(".constructor.model"))
]


def test_what_needs_no_argument() -> None:
    """Configurations that demand a store or an index there are made without any here."""
    for name in (
        "LearningsConfig",
        "CorrectionsConfig",
        "GraphMemoryConfig",
        "GraphMemoryFeatureConfig",
    ):
        assert getattr(memoriale, name)() == getattr(memoriale, name)()


@pytest.mark.parametrize("row", ABSENT, ids=lambda row: f"{row.reference}")
def test_what_is_not_taken_is_refused(row: Row) -> None:
    """An option or argument without a counterpart is an error, and a name that is not here is not
    in the package."""
    assert row.reference is not None
    *above, last = row.reference.split(".")
    if not above:
        assert not hasattr(memoriale, last)
        return
    name = ".".join(BELOW.get(part, pep8(part)) for part in above if part != "constructor")
    found = find(name)
    if name == "agent_memory":
        # It takes any keyword in order to refuse it by its name, with a reason.
        with pytest.raises(memoriale.InputError) as refused:
            found(None, tenant="acme", **{pep8(last): object()})
        assert refused.value.field == pep8(last)
        return
    with pytest.raises(TypeError, match=f"'{pep8(last)}'"):
        inspect.signature(found).bind_partial(**{pep8(last): object()})
    if isinstance(found, type) and issubclass(found, pydantic.BaseModel):
        given: dict[str, Any] = {pep8(last): object()}
        with pytest.raises(ValueError, match=pep8(last)):
            found(**given)
