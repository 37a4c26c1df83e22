"""Which public keys a check trusts: those of the installation, or those that it was given."""

from collections.abc import Callable, Sequence
from typing import Final

from memoriale.adapters.notes.verifier_keys import Algorithm, VerifierKey
from memoriale.adapters.sealing.signing_key import NAME, SigningKey

_NO_NAME: Final = "-"


def trusted(key: SigningKey, given: Sequence[str] = ()) -> Callable[[str], list[VerifierKey]]:
    """
    For the name of a log the keys that may have signed its checkpoints.

    Args:
        key: The installation's; its public keys are trusted when none is given.
        given: Verifier keys, ``name+hash+key``. One named ``memoriale`` is an installation's
            and stands for each of its logs; any other one is of that log or witness alone.

    Raises:
        InputError: One cannot be read.
    """
    parsed = [VerifierKey.parse(text) for text in given]
    if not parsed:
        return key.verifiers
    return lambda origin: [_named(one, origin) for one in parsed]


def _named(key: VerifierKey, origin: str) -> VerifierKey:
    installations = key.name == NAME and key.algorithm is Algorithm.ED25519
    return VerifierKey(origin or _NO_NAME, key.public_key) if installations else key
