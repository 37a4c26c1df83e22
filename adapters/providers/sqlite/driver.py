"""Which SQLite library is used, and whether it can search vectors."""

import sqlite3
from importlib import import_module
from typing import Any


def _driver() -> Any:
    """
    The module, the same for the whole process: two SQLite libraries that have one file open in
    one process break each other's locks.
    """
    try:
        return import_module("pysqlite3.dbapi2")
    except ImportError:
        return sqlite3


DRIVER: Any = _driver()
"""``pysqlite3`` where it is installed, else ``sqlite3``, which on many systems loads nothing."""


def can_search_vectors(connection: sqlite3.Connection) -> bool:
    """Makes sqlite-vec part of a connection; whether that worked."""
    if not hasattr(connection, "enable_load_extension"):
        return False
    try:
        extension = import_module("sqlite_vec")
        connection.enable_load_extension(True)
        try:
            extension.load(connection)
        finally:
            connection.enable_load_extension(False)
    except (ImportError, DRIVER.Error):
        # Not installed, or not made for this system: then every vector is compared.
        return False
    return True
