"""Which code folded something: a number that is another one after every change of that code."""

import hashlib
import json
import pkgutil
from functools import cache
from typing import Final

from memoriale.domain.payloads import Payload, payload_model

_PARTS: Final = ("memory.py", "slices.py", "record.py", "events.py", "payloads/base.py")


def fold_version(kind: str) -> int:
    """
    The version of the code that folds memories of a kind, and of the form that they have.

    Args:
        kind: A known kind.
    """
    return _of_model(payload_model(kind))


@cache
def _of_model(model: type[Payload]) -> int:
    found = hashlib.sha256(_code())
    found.update(json.dumps(model.model_json_schema(), sort_keys=True).encode())
    return int.from_bytes(found.digest()[:4], "big") >> 1


@cache
def _code() -> bytes:
    found = hashlib.sha256()
    for part in _PARTS:
        found.update(pkgutil.get_data("memoriale.domain", part) or b"")
    return found.digest()
