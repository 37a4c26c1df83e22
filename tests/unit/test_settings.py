"""Settings: the logins of the database."""

import json

import pytest

from memoriale.adapters.settings import load_settings
from memoriale.domain.errors import InputError

LOGINS = ("database_url", "project_url", "admin_url", "erase_url")


@pytest.mark.parametrize("name", LOGINS[1:])
def test_a_further_login_needs_a_database(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login beside the embedded server, which has its own, is refused and named."""
    monkeypatch.delenv("MEMORIALE_DATABASE_URL", raising=False)
    with pytest.raises(InputError) as caught:
        load_settings(**{name: "postgresql://u:secret@host/db"})
    assert caught.value.field == f"MEMORIALE_{name.upper()}"
    assert "secret" not in json.dumps(caught.value.as_dict())


def test_passwords_of_all_logins_are_hidden() -> None:
    """What people may see of the settings holds each login's user and place, and no password."""
    given = {name: f"postgresql://{name}:secret@host/db" for name in LOGINS}
    settings = load_settings(**given)
    assert {name: settings.shown()[name] for name in LOGINS} == {
        name: f"postgresql://{name}@host/db" for name in LOGINS
    }
    assert "secret" not in repr(settings) + json.dumps(settings.shown())


def test_an_unknown_setting_is_told_which_there_are() -> None:
    """The error names it and every setting there is."""
    with pytest.raises(InputError, match="there is no setting 'foo'") as error:
        load_settings(foo=3)
    assert (error.value.code, error.value.field) == ("bad_setting", "MEMORIALE_FOO")
    assert "embedder" in str(error.value.allowed)
