"""Tools for language models: their arguments are checked by name before anything is done."""

from typing import Any

import pytest

from memoriale.domain.errors import InputError
from memoriale.domain.tools import ToolDef

SCHEMA = {"type": "object", "properties": {"q": {}, "n": {}}, "required": ["q"]}


def test_arguments_are_checked_by_name() -> None:
    """A missing or unknown argument is an error that names it, and the handler is not called."""
    called: list[object] = []
    tool = ToolDef(name="t", description="d", parameters=SCHEMA, handler=called.append)
    for given, field in (({}, "q"), ({"q": 1, "x": 2}, "x")):
        with pytest.raises(InputError) as error:
            tool.handler(given)
        assert error.value.field == field
        assert error.value.allowed == ["q", "n"]
    assert called == []
    tool.handler({"q": 1})
    assert called == [{"q": 1}]


@pytest.mark.parametrize("given", [None, "q", ["q"], 3])
def test_arguments_that_are_no_object_are_refused(given: Any) -> None:
    """What a model sends instead of an object is an error, and the handler is not called."""
    called: list[object] = []
    tool = ToolDef(name="t", description="d", parameters=SCHEMA, handler=called.append)
    with pytest.raises(InputError) as error:
        tool.handler(given)
    assert (error.value.code, error.value.field) == ("bad_value", "arguments")
    assert called == []
