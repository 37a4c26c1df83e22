"""Where a database is: connection strings, completed and shown without secrets."""

from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from memoriale.domain.errors import InputError

CONNECT_TIMEOUT: Final = 5
"""Seconds until a silent host counts as down, unless the connection string says otherwise."""


def connection_settings(
    url: str, application_name: str = "memoriale", setting: str = "database_url"
) -> dict[str, Any]:
    """
    Every setting of a connection string (``sslmode``, ``options``, several hosts …), completed
    by a connect timeout, the name of the application and the encoding.

    Args:
        url: ``postgresql://…`` or ``key=value …``, as libpq takes it.
        application_name: Shown in ``pg_stat_activity`` unless the string names another.
        setting: Where the string comes from, for the error.

    Raises:
        InputError: It is no connection string.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise InputError(
            "The database's URL cannot be read. Write it as"
            " postgresql://user:password@host:port/database.",
            code="bad_url",
            field=setting,
            allowed="postgresql://user:password@host:port/database",
        ) from error
    defaults = {"connect_timeout": CONNECT_TIMEOUT, "fallback_application_name": application_name}
    return {**defaults, **given, "client_encoding": "UTF8"}


def place_of(settings: dict[str, Any]) -> str:
    """
    Host, port and database in one word for messages; never the user's password.

    Args:
        settings: What ``connection_settings`` returned.
    """
    hosts = str(settings.get("host") or settings.get("hostaddr") or "localhost").split(",")
    ports = str(settings.get("port") or "5432").split(",")
    padded = ports * len(hosts) if len(ports) == 1 else ports
    pairs = ",".join(f"{host}:{port}" for host, port in zip(hosts, padded, strict=False))
    return f"{pairs}/{settings.get('dbname') or ''}"
