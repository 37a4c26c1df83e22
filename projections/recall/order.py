"""The order of hits: by score, or by a composite of similarity, recency and importance."""

from datetime import datetime
from typing import Any

from memoriale.domain.scoring import DEFAULT_HALF_LIFE_DAYS, DEFAULT_WEIGHTS, NEUTRAL
from memoriale.projections.recall.ranking import Pool
from memoriale.projections.recall.shelf import moment

_DAY = 86_400 * 1_000_000


def best_places(scores: Any, keys: Any, wanted: int) -> Any:
    """
    Places of the best scores, best first; ties go to the lower key.

    Args:
        scores: An array.
        keys: As many different keys.
        wanted: How many places at most.
    """
    import numpy

    places = numpy.arange(len(scores))
    if wanted < len(scores):
        # Sorting a million to show ten would take longer than scoring them.
        last = len(scores) - wanted
        places = numpy.flatnonzero(scores >= numpy.partition(scores, last)[last])
    return places[numpy.lexsort((keys[places], -scores[places]))][:wanted]


def composite(pool: Pool, cosine: Any, now: datetime) -> Any:
    """
    ``domain.scoring.compute_composite_score`` of every row.

    Args:
        pool: The rows.
        cosine: Of question and row; NaN where there is none.
        now: To when ages are counted.
    """
    import numpy

    similarity = numpy.where(numpy.isnan(cosine), NEUTRAL, numpy.clip(cosine, 0, 1))
    days = numpy.maximum(0, moment(now) - pool.column("created_at")) / _DAY
    thousandths = pool.column("importance")
    importance = numpy.where(thousandths < 0, NEUTRAL, thousandths / 1000)
    score = (
        DEFAULT_WEIGHTS["semantic"] * similarity
        + DEFAULT_WEIGHTS["recency"] * 2.0 ** (-days / DEFAULT_HALF_LIFE_DAYS)
        + DEFAULT_WEIGHTS["importance"] * importance
    )
    return numpy.minimum(1.0, score / sum(DEFAULT_WEIGHTS.values()))
