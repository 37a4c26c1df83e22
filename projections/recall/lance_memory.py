"""Bounds on the memory that LanceDB takes, and its return to the system."""

import ctypes
import os
import sys
from functools import cache
from typing import Any, Final

_MIB: Final = 2**20
_READ_AHEAD: Final = 32 * _MIB
_INDEX_CACHE: Final = 128 * _MIB
_METADATA_CACHE: Final = 64 * _MIB
_LARGE: Final = 4 * _MIB
_M_MMAP_THRESHOLD: Final = -3
"""The name of that option in glibc's malloc.h."""


@cache
def lancedb() -> Any:
    """The library; it may read 32 MiB ahead. By default that is 2 GiB, and it uses them."""
    os.environ.setdefault("LANCE_DEFAULT_IO_BUFFER_SIZE", str(_READ_AHEAD))
    _keep_large_buffers_off_the_heap()
    import lancedb as library

    return library


@cache
def shared_session() -> Any:
    """
    One cache for all tables of the process. By default each connection has its own, of up to
    7 GiB.
    """
    return lancedb().Session(_INDEX_CACHE, _METADATA_CACHE)


def give_back() -> None:
    """
    Returns freed memory to the system. LanceDB's many threads each free into an arena of their
    own, and glibc keeps what is there: 40 % of a process that compacts a large table.
    """
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _keep_large_buffers_off_the_heap() -> None:
    """
    Has malloc map each buffer of 4 MiB or more by itself, so that freeing it returns it. By
    default glibc moves that limit up to 32 MiB as buffers are freed; LanceDB's then lie on the
    heap between small pieces that stay, and posting 300,000 rows left 650 MiB in use, not 280.
    """
    option = _of_glibc("mallopt")
    if option is not None:
        option(_M_MMAP_THRESHOLD, _LARGE)


def _of_glibc(name: str) -> Any:
    """A function of the C library; None where it has none of that name."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
