"""Every error that memoriale raises, sorted by what the caller does next.

MemorialeError
├── ViolationError        what was checked does not hold               (exit code 1)
├── InputError            fix the input; nothing was stored            (exit code 2)
│   ├── ForkedHandleError open a ledger of your own after os.fork
│   └── MemoryCapabilityError  the provider cannot do that; take another
├── RefusedError          a hold, a policy or a missing right          (exit code 3)
│   ├── MissingRightError
│   └── MemoryAccessDeniedError  the team's memory is closed to the caller
├── ConflictError         somebody else was first; try again           (exit code 4)
│   ├── JobEndedError     the job was cancelled or taken over; leave it
│   └── OperationCancelledError  it was cancelled and has no result
├── IncompleteError       nothing wrong was found, but not all checked (exit code 6)
└── UnavailableError      database, model or file; wait and try again  (exit code 5)
    ├── OperationError    an operation failed for good; ask for it once more
    ├── CorruptViewError  the view is damaged; it is rebuilt from the log
    └── BehindError       a view did not catch up in the time allowed
"""

import threading
from typing import Any, ClassVar


class MemorialeError(Exception):
    """
    Root of the tree.

    Args:
        message: One sentence that says what is wrong and what to do.
        code: A stable word for programs, such as ``too_long``.
        field: Name of the argument that is wrong, if one is.
        value: What was given, shortened; never the content of a memory.
        allowed: What would have been accepted.
    """

    exit_code: ClassVar[int] = 5
    retry: ClassVar[bool] = False
    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        value: Any = None,
        allowed: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.field = field
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self)._rebuild, (type(self), self.message, self.as_dict()))

    @staticmethod
    def _rebuild(
        cls: type["MemorialeError"], message: str, facts: dict[str, Any]
    ) -> "MemorialeError":
        error = cls.__new__(cls)
        MemorialeError.__init__(
            error,
            message,
            code=facts["code"],
            field=facts["field"],
            value=facts["value"],
            allowed=facts["allowed"],
        )
        return error

    def as_dict(self) -> dict[str, Any]:
        """The error as the JSON object that surfaces print."""
        return {
            "code": self.code,
            "message": self.message,
            "field": self.field,
            "value": self.value,
            "allowed": self.allowed,
            "retry": self.retry,
        }


class ViolationError(MemorialeError):
    """A signature, a proof or a record does not hold: somebody or something changed it."""

    exit_code = 1
    default_code = "violation"


class InputError(MemorialeError):
    """The input is wrong. Nothing was stored; the same call would fail again."""

    exit_code = 2
    default_code = "bad_input"


class ForkedHandleError(InputError):
    """A handle was used in a child process after ``os.fork``."""

    default_code = "forked_handle"


class MemoryCapabilityError(InputError):
    """
    A call needs what the provider of a memory does not have. ``capability`` names it:
    ``semantic``, ``prunable`` or ``bulk`` (reference system C, ``MemoryCapabilityError``).
    """

    default_code = "missing_capability"

    @property
    def capability(self) -> str:
        """What is missing."""
        return str(self.allowed)


class RefusedError(MemorialeError):
    """A hold, a policy or a missing right forbids the call. Nothing was stored."""

    exit_code = 3
    default_code = "refused"


class MissingRightError(RefusedError):
    """The principal lacks the right that the call needs."""

    default_code = "missing_right"


class MemoryAccessDeniedError(RefusedError):
    """
    The caller may not use the memory of a team; ``team_id`` names it, and None is the memory
    without a team (reference system C, ``MemoryAccessDeniedError``).
    """

    default_code = "team_denied"

    @property
    def team_id(self) -> str | None:
        """Which team."""
        return None if self.value is None else str(self.value)


class ConflictError(MemorialeError):
    """Somebody else changed what the call was based on. Trying again may succeed."""

    exit_code = 4
    retry = True
    default_code = "conflict"


class JobEndedError(ConflictError):
    """The job that this was done for was cancelled or taken over. Nothing was stored."""

    default_code = "job_ended"


class OperationCancelledError(ConflictError):
    """An operation was cancelled, so it has no result. What it had not stored is not stored."""

    default_code = "cancelled"


class IncompleteError(MemorialeError):
    """Nothing wrong was found, but part of what was asked for could not be shown yet."""

    exit_code = 6
    default_code = "incomplete"


class UnavailableError(MemorialeError):
    """A database, a model or a file cannot be used now. Nothing was stored."""

    exit_code = 5
    retry = True
    default_code = "unavailable"
    retry_after = 0.0
    """Seconds that whoever failed asks to be left alone; 0 if it did not say."""
    for_good: ClassVar[bool] = False
    """Whether it was tried as often as was asked, so that only a person tries again."""


class OperationError(UnavailableError):
    """
    An operation failed for good: what it was given is kept, and it may be asked for once more.
    ``code`` and ``message`` say why. It is not tried again by itself: a person looks at it.
    """

    for_good = True
    default_code = "errored"


class CorruptViewError(UnavailableError):
    """A view cannot be read. It is disposable: rebuild it from the log."""

    default_code = "corrupt_view"


class BehindError(UnavailableError):
    """A strict read found its view behind the log after the time allowed."""

    default_code = "behind"


def is_callers_end(error: BaseException) -> bool:
    """
    Whether an exception says that the program itself is to end: Ctrl-C and ``sys.exit`` in the
    main thread, where signals raise them. Whatever else a model, an embedder or a listener of the
    program's own raises is a failure of theirs, ``SystemExit`` in another thread too.

    Args:
        error: What was raised in the thread that asks.
    """
    main = threading.current_thread() is threading.main_thread()
    return main and isinstance(error, KeyboardInterrupt | SystemExit)
