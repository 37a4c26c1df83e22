"""Errors: one tree, sorted by what the caller does next, that survives every boundary."""

import copy
import inspect
import json
import pickle
import re

import pytest

from memoriale.domain import errors
from memoriale.domain.errors import (
    BehindError,
    ConflictError,
    CorruptViewError,
    ForkedHandleError,
    IncompleteError,
    InputError,
    JobEndedError,
    MemorialeError,
    MemoryAccessDeniedError,
    MemoryCapabilityError,
    MissingRightError,
    OperationCancelledError,
    OperationError,
    RefusedError,
    UnavailableError,
    ViolationError,
)

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, MemorialeError) and cls.__module__ == errors.__name__
]
EXIT_CODES = {
    MemorialeError: 5,
    ViolationError: 1,
    InputError: 2,
    ForkedHandleError: 2,
    MemoryCapabilityError: 2,
    RefusedError: 3,
    MissingRightError: 3,
    MemoryAccessDeniedError: 3,
    ConflictError: 4,
    JobEndedError: 4,
    OperationCancelledError: 4,
    IncompleteError: 6,
    UnavailableError: 5,
    OperationError: 5,
    CorruptViewError: 5,
    BehindError: 5,
}


def documented_tree() -> dict[str, str]:
    """Each class named in the module's docstring, with the class that it hangs under."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"(?P<branch>[│├└─ ]*)(?P<name>\w+Error)\b", line)
        if found:
            depth = len(found["branch"]) // 4
            above = [*above[:depth], found["name"]]
            if depth:
                parents[found["name"]] = above[depth - 1]
    return parents


def test_the_documented_tree_is_the_tree_of_classes() -> None:
    """The tree in the module's docstring names every class under its own base class."""
    real = {cls.__name__: cls.__bases__[0].__name__ for cls in CLASSES if cls is not MemorialeError}
    assert documented_tree() == real


def test_the_documented_exit_codes_are_those_of_the_classes() -> None:
    """An exit code that the docstring gives is the one that the class has."""
    documented = dict(re.findall(r"(\w+Error) .*\(exit code (\d)\)", errors.__doc__ or ""))
    assert documented == {
        cls.__name__: str(cls.exit_code) for cls in CLASSES if cls.__base__ is MemorialeError
    }


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_has_the_exit_code_of_its_branch(cls: type[MemorialeError]) -> None:
    """A violation is 1, input 2, a refusal 3, a conflict 4, everything that is unavailable 5, and
    what could not be shown in full 6."""
    assert cls.exit_code == EXIT_CODES[cls]


def test_default_codes_are_unique() -> None:
    """A program can tell every class by its default code."""
    codes = [cls.default_code for cls in CLASSES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch("[a-z_]+", code) for code in codes)


@pytest.mark.parametrize("cls", CLASSES)
def test_trying_again_helps_only_against_conflicts_and_outages(cls: type[MemorialeError]) -> None:
    """The mark for trying again is set on conflicts and on what is unavailable, nowhere else."""
    assert cls.retry == issubclass(cls, ConflictError | UnavailableError)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])
def test_errors_survive_pickling(cls: type[MemorialeError], again: object) -> None:
    """An error that crosses a process says the same there: class, message and every fact."""
    error = cls("too long; shorten it.", code="too_long", field="tags", value=["a"], allowed=64)
    assert callable(again)
    other = again(error)
    assert type(other) is cls
    assert str(other) == "too long; shorten it."
    assert other.as_dict() == error.as_dict()
    assert other.args == error.args


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_is_one_json_object(cls: type[MemorialeError]) -> None:
    """Surfaces print code, message, field, value, allowed and retry, and nothing else."""
    error = cls("no.", field="f", value="v", allowed=["a"])
    assert json.loads(json.dumps(error.as_dict())) == {
        "code": cls.default_code,
        "message": "no.",
        "field": "f",
        "value": "v",
        "allowed": ["a"],
        "retry": cls.retry,
    }


def test_facts_that_are_not_given_are_none() -> None:
    """An error without a field, value or allowed says so by None."""
    facts = InputError("no.").as_dict()
    assert (facts["field"], facts["value"], facts["allowed"]) == (None, None, None)


@pytest.mark.parametrize("cls", CLASSES)
def test_the_root_catches_every_error(cls: type[MemorialeError]) -> None:
    """A caller that catches the root catches all."""
    with pytest.raises(MemorialeError, match="no"):
        raise cls("no.")
