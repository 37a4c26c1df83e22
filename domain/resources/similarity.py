"""How near two vectors are, for those who bring their own provider."""

import math
from collections.abc import Sequence

from memoriale.domain.errors import InputError


def cosine_similarity(a: Sequence[float], b: Sequence[float]) -> float:
    """
    The cosine of the angle between two vectors, -1..1; 0 when one of them has length 0
    (reference system C, ``cosineSimilarity``).

    Raises:
        InputError: Vectors of two widths, or a number that is NaN or infinite.
    """
    if len(a) != len(b):
        raise InputError(
            f"the vectors have {len(a)} and {len(b)} components; give two of one width.",
            code="bad_vectors",
            field="b",
            value=len(b),
            allowed=len(a),
        )
    if not all(map(math.isfinite, (*a, *b))):
        raise InputError(
            "a vector holds NaN or infinity; give finite numbers.",
            code="bad_vectors",
            field="a" if not all(map(math.isfinite, a)) else "b",
            allowed="finite numbers",
        )
    one, other = _of_length_one(a), _of_length_one(b)
    return max(-1.0, min(1.0, math.fsum(x * y for x, y in zip(one, other, strict=True))))


def _of_length_one(vector: Sequence[float]) -> list[float]:
    # Divided by the largest first, so that no square is too large or too small for a float.
    largest = max((abs(x) for x in vector), default=0.0)
    if largest == 0:
        return [0.0] * len(vector)
    scaled = [x / largest for x in vector]
    length = math.hypot(*scaled)
    return [x / length for x in scaled]
