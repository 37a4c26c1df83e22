"""Option types that more than one command has."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from typer import Argument, Option

LAST_INDEX: Final = 2**63 - 1

MemoryId = Annotated[str, Argument(metavar="ID", help="Id of a memory.")]
Content = Annotated[
    str, Argument(metavar="TEXT", help="The text; - reads it from standard input, as it is.")
]
Metadata = Annotated[
    str | None, Option("--metadata", metavar="JSON", help="A JSON object to keep with it.")
]
Importance = Annotated[float | None, Option(help="0..1.")]
Tags = Annotated[list[str] | None, Option("--tag", metavar="TAG", help="May be repeated.")]
AsOf = Annotated[
    str | None,
    Option("--as-of", metavar="INDEX|I@G|TIME", help="Answer as then; RFC 3339 with an offset."),
]
Shared = Annotated[
    bool, Option("--global", help="The views of the global memories alone, not the tenant's.")
]
ValidAt = Annotated[
    str | None, Option("--valid-at", metavar="TIME", help="Only what is true in the world then.")
]
Kinds = Annotated[
    list[str] | None, Option("--kind", metavar="KIND", help="Only this kind. May be repeated.")
]
OnlyTags = Annotated[
    list[str] | None, Option("--tag", metavar="TAG", help="Only with this tag. May be repeated.")
]
AllOwners = Annotated[
    bool, Option("--all-owners", help="Whoever's it is. Right: audit; its text: content.")
]
Tenant = Annotated[str | None, Option("--tenant", help="Whose ledger. Default: MEMORIALE_TENANT.")]


@dataclass(frozen=True, kw_only=True)
class Common:
    """What every command has."""

    home: Annotated[
        str | None,
        Option("--home", metavar="FOLDER", help="Folder of the installation, over MEMORIALE_HOME."),
    ] = None
    json: Annotated[bool, Option("--json", help="Print JSON and nothing else.")] = False


@dataclass(frozen=True, kw_only=True)
class Caller:
    """As whom a command acts. Defaults come from ``MEMORIALE_TENANT``, ``_USER`` and so on."""

    tenant: Tenant = None
    user: Annotated[str | None, Option(help="As this user. Default: MEMORIALE_USER.")] = None
    agent: Annotated[str | None, Option(help="As this agent. Default: MEMORIALE_AGENT.")] = None
    resource: Annotated[
        str | None, Option(help="As this resource. Default: MEMORIALE_RESOURCE.")
    ] = None
    team: Annotated[str | None, Option(help="For this team. Default: MEMORIALE_TEAM.")] = None
    session: Annotated[str | None, Option(help="In this session. Default: MEMORIALE_SESSION.")] = (
        None
    )
    namespace: Annotated[
        str | None, Option(metavar="PATH", help="Look from this path, write at it.")
    ] = None
    actor: Annotated[
        str | None, Option(help="Who does it, if not the user. Default: MEMORIALE_ACTOR.")
    ] = None
    purpose: Annotated[str | None, Option(metavar="CODE", help="What for; kept in clear.")] = None


@dataclass(frozen=True, kw_only=True)
class OnBranch:
    """Where a command acts."""

    branch: Annotated[str, Option("--branch", help="Act on this branch.")] = "main"


@dataclass(frozen=True, kw_only=True)
class Times:
    """When a memory is true, and until when it is recalled."""

    valid_from: Annotated[
        str | None, Option(metavar="TIME", help="Since when it is true in the world.")
    ] = None
    valid_until: Annotated[str | None, Option(metavar="TIME", help="When it stops being true.")] = (
        None
    )
    expires: Annotated[
        str | None, Option(metavar="TIME", help="Not recalled from then on; history keeps it.")
    ] = None

    def given(self) -> dict[str, Any]:
        """As arguments of the library."""
        return {
            "valid_from": self.valid_from,
            "valid_until": self.valid_until,
            "expires_at": self.expires,
        }


@dataclass(frozen=True, kw_only=True)
class Because:
    """What every change of a memory carries."""

    reason: Annotated[str | None, Option(metavar="TEXT", help="Why; kept sealed.")] = None
    idempotency_key: Annotated[
        str | None,
        Option(metavar="KEY", help="Repeating the command with it changes nothing twice."),
    ] = None

    def given(self) -> dict[str, Any]:
        """As arguments of the library."""
        return {"reason": self.reason, "idempotency_key": self.idempotency_key}


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a read waits for its view."""

    wait: Annotated[
        float | None,
        Option(metavar="SECONDS", help="For the view to catch up. Default: MEMORIALE_WAIT."),
    ] = None
    strict: Annotated[
        bool, Option("--strict", help="Fail when the view is behind after the wait.")
    ] = False
