"""The one place that reads the environment and ``memoriale.toml``."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from memoriale.adapters.anchors.places import Places, parse_places, split_setting
from memoriale.adapters.embeddings.endpoint import API_KEY, BASE_URL, DEFAULT_URL, Endpoint
from memoriale.domain.errors import InputError
from memoriale.domain.fields import Limits
from memoriale.domain.principal import ALL_RIGHTS, Right, parse_rights
from memoriale.domain.text import MAX_CONTENT_BYTES, MAX_VALUE_BYTES, shown

PREFIX: Final = "MEMORIALE_"
FILE_NAME: Final = "memoriale.toml"
_FURTHER_LOGINS: Final = ("project_url", "admin_url", "erase_url")
_SECRETS: Final = ("database_url", *_FURTHER_LOGINS, "openai_api_key")
_PATHS: Final = ("home", "views_uri", "snapshots_uri", "keystore", "master_key", "signing_key")


class Settings(BaseSettings):
    """
    How this process runs. Frozen; each field is the variable ``MEMORIALE_<NAME>``, a key of
    ``memoriale.toml`` in the current folder, or an argument, the last one winning.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, toml_file=FILE_NAME, frozen=True, extra="forbid"
    )

    home: Path = Field(default_factory=lambda: Path.home() / ".memoriale")
    """Keys, views and the embedded database."""
    database_url: SecretStr | None = None
    """PostgreSQL 15 or newer; None starts the embedded server in the home."""
    project_url: SecretStr | None = None
    """Login that posts views; None uses ``database_url``."""
    admin_url: SecretStr | None = None
    """Login that migrates; None uses ``database_url``."""
    erase_url: SecretStr | None = None
    """Login that removes payloads; None uses ``database_url``."""
    views_uri: Path | None = None
    """Folder of the views; None means ``<home>/views``."""
    snapshots_uri: Path | None = None
    """Folder of the published snapshots; None means ``<home>/snapshots``."""
    keystore: Path | None = None
    """Folder of the key store; None means ``<home>/keys``."""
    master_key: Path | None = None
    """File of the key that wraps all keys; None means one in the key store's folder."""
    signing_key: Path | None = None
    """File of the key that signs checkpoints; None means ``<home>/signing/key``."""
    anchors: Annotated[tuple[str, ...], NoDecode] = ()
    """Outside places of checkpoints; in the environment parted by commas or white space."""
    tenant: str = "default"
    user: str | None = None
    agent: str | None = None
    resource: str | None = None
    team: str | None = None
    session: str | None = None
    actor: str | None = None
    embedder: str = "wordllama"
    model: str = "none"
    """Language model for extraction: ``openai:MODEL``, another name of pydantic-ai,
    ``package.module:factory``, or ``none``."""
    openai_base_url: str = Field(
        default=DEFAULT_URL, validation_alias=AliasChoices("openai_base_url", BASE_URL)
    )
    """Where ``openai:MODEL`` asks; the variable is ``OPENAI_BASE_URL``, without a prefix."""
    openai_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("openai_api_key", API_KEY)
    )
    """What it shows there; the variable is ``OPENAI_API_KEY``."""
    access_log: str = Field(default="ids", pattern="^(off|ids|full)$")
    """What is kept of each answer: nothing, which memories were given, or the question too."""
    rights: str | None = None
    """Rights that the command line asserts, with commas between; None: all. Not for the library."""
    max_content_bytes: int = Field(default=MAX_CONTENT_BYTES, ge=1, le=1_000_000_000)
    max_value_bytes: int = Field(default=MAX_VALUE_BYTES, ge=1, le=1_000_000_000)
    wait: float = Field(default=2.0, ge=0, le=3600)
    """Seconds that a read waits for a view."""
    embedded_idle: float = Field(default=60.0, ge=0, le=86_400)
    """Seconds after which the embedded server stops when nobody uses it."""
    timezone: str = "UTC"
    """Zone in which the command line shows times to people."""
    log_level: str = Field(default="warning", pattern="^(debug|info|warning|error)$")

    SOURCES: ClassVar[str] = "arguments, environment, memoriale.toml"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("a zone name such as Europe/Rome") from None
        return value

    @field_validator("rights")
    @classmethod
    def _known_rights(cls, value: str | None) -> str | None:
        names = [] if value is None else split_rights(value)
        if not set(names) <= {right.value for right in Right}:
            raise ValueError(f"names of {', '.join(Right)} with commas between")
        return value

    @field_validator("anchors", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return split_setting(value) if isinstance(value, str) else value

    @field_validator("anchors")
    @classmethod
    def _known_places(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parse_places(value)
        return value

    @field_validator(*_PATHS, mode="before")
    @classmethod
    def _not_empty(cls, value: Any) -> Any:
        if value == "":
            raise ValueError("a path that is not empty")
        if isinstance(value, str) and ("://" in value or "\0" in value):
            raise ValueError("a folder or file of this machine; object stores are not supported")
        return value

    @field_validator(*_PATHS)
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @field_validator(*_FURTHER_LOGINS)
    @classmethod
    def _beside_a_database(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value is not None and info.data.get("database_url") is None:
            raise ValueError(
                "nothing without MEMORIALE_DATABASE_URL: the embedded server has its own"
            )
        return value

    @property
    def views_folder(self) -> Path:
        """Where the views lie."""
        return self.views_uri or self.home / "views"

    @property
    def snapshots_folder(self) -> Path:
        """Where the published snapshots lie."""
        return self.snapshots_uri or self.home / "snapshots"

    @property
    def keys_folder(self) -> Path:
        """Where the key store lies."""
        return self.keystore or self.home / "keys"

    @property
    def signing_folder(self) -> Path:
        """Where the public keys of checkpoints lie, and the signing key unless it is elsewhere."""
        return self.home / "signing"

    @property
    def signing_key_file(self) -> Path:
        """The key that signs checkpoints."""
        return self.signing_key or self.signing_folder / "key"

    @property
    def tiles_folder(self) -> Path:
        """Where the Merkle trees and checkpoints of the logs lie."""
        return self.home / "tiles"

    @property
    def anchor_places(self) -> Places:
        """Outside places of checkpoints."""
        return parse_places(self.anchors)

    @property
    def anchors_folder(self) -> Path:
        """What this installation remembers of its anchors."""
        return self.home / "anchors"

    @property
    def cache_folder(self) -> Path:
        """Where vectors are cached, sealed."""
        return self.home / "cache"

    @property
    def openai_endpoint(self) -> Endpoint:
        """Where embeddings and replies of language models come from over HTTP."""
        key = self.openai_api_key.get_secret_value() if self.openai_api_key else ""
        return Endpoint(self.openai_base_url, key or None)

    @property
    def limits(self) -> Limits:
        """Sizes that commands may have."""
        return Limits(self.max_content_bytes, self.max_value_bytes)

    @property
    def asserted_rights(self) -> frozenset[Right]:
        """What the command line may do."""
        return ALL_RIGHTS if self.rights is None else parse_rights(split_rights(self.rights))

    def shown(self) -> dict[str, Any]:
        """The values as people may see them: addresses without their password."""
        values = self.model_dump(mode="json")
        for name in ("database_url", *_FURTHER_LOGINS):
            secret = getattr(self, name)
            values[name] = None if secret is None else without_password(secret.get_secret_value())
        return values


def load_settings(**arguments: Any) -> Settings:
    """
    Settings from arguments, the environment and ``memoriale.toml``.

    Raises:
        InputError: A wrong or unknown value; names the key, the value and what is allowed.
    """
    try:
        return Settings(**{k: v for k, v in arguments.items() if v is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        variable, value = f"{PREFIX}{name.upper()}", shown(str(first.get("input")))
        if name in _SECRETS:
            value = "(not shown)"
        if first["type"] == "extra_forbidden":
            raise _no_setting(name) from None
        raise InputError(
            f"setting {variable} is {value!r}: {first['msg']}.",
            code="bad_setting",
            field=variable,
            value=value,
            allowed=first["msg"],
        ) from None
    except ValueError as error:
        raise InputError(
            f"{FILE_NAME} cannot be read: {error}.", code="bad_setting", field=FILE_NAME
        ) from None


def _no_setting(name: str) -> InputError:
    known = ", ".join(sorted(Settings.model_fields))
    return InputError(
        f"there is no setting {shown(name)!r}; the settings are {known}.",
        code="bad_setting",
        field=f"{PREFIX}{name.upper()}",
        value=name,
        allowed=known,
    )


def split_rights(text: str) -> list[str]:
    """Names with commas between; an empty text has none."""
    return [name.strip() for name in text.split(",") if name.strip()]


def without_password(url: str) -> str:
    """A database address that may be shown."""
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(url)
    host = ",".join(str(parts[key]) for key in ("host", "hostaddr") if parts.get(key))
    port = f":{parts['port']}" if parts.get("port") else ""
    user = f"{parts['user']}@" if parts.get("user") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname', '')}"
