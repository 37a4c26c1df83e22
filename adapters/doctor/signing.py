"""The check of the key that signs checkpoints."""

from typing import Final

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.machine import mode

NAME: Final = "signing key"


def signing_key(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """
    The key can be used, is its owner's alone, and does not lie where the database does: whoever
    takes over that machine could rewrite the log and sign it again.
    """
    settings, key = infrastructure.settings, infrastructure.sealing.key
    problem = key.problem()
    if problem is not None:
        return Check.failed(NAME, problem.message)
    if mode(key.path) & 0o077:
        return Check.failed(NAME, f"{key.path} is {mode(key.path):04o}; chmod 600 keeps others out")
    if infrastructure.server is not None and key.path.is_relative_to(settings.home):
        return Check.warned(
            NAME,
            f"{key.path} lies beside the database: keep checkpoints elsewhere too, or the key on "
            "another disk (MEMORIALE_SIGNING_KEY)",
        )
    return Check.passed(NAME, str(key.path))
