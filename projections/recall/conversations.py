"""Conversation context: the scores of the turns around a turn, and of its whole conversation."""

from typing import Any, Final

NEIGHBOURS: Final = ((-1, 0.6), (-2, 0.4), (1, 0.4), (2, 0.25))
"""Turns before and after, and what their score counts for a turn."""
SESSION_BEST: Final = 3


class Conversations:
    """
    The visible turns in the order in which they were said, conversation by conversation.

    Args:
        conversation: For each visible row the number of its conversation, 0 for none.
        first_index: For each visible row when its memory was made.
    """

    def __init__(self, conversation: Any, first_index: Any) -> None:
        import numpy

        turns = numpy.flatnonzero(conversation > 0)
        of, said = conversation[turns], first_index[turns]
        by = numpy.lexsort((said, of)) if len(turns) else turns
        self._order = turns[by]
        self._of = of[by]
        self._starts = numpy.flatnonzero(_changes(self._of))
        self._sizes = numpy.diff([*self._starts, len(by)])
        self._group = numpy.repeat(numpy.arange(len(self._starts)), self._sizes)
        self.any = len(turns) > 0

    def neighbours(self, scores: Any) -> Any:
        """For each turn the weighted scores of those around it in the same conversation."""
        import numpy

        said = scores[self._order]
        found = numpy.zeros(len(said))
        for step, weight in NEIGHBOURS:
            later, earlier = slice(abs(step), None), slice(None, -abs(step))
            here, there = (later, earlier) if step < 0 else (earlier, later)
            same = self._of[here] == self._of[there]
            found[here] += numpy.where(same, weight * said[there], 0.0)
        return self._spread(scores, found)

    def best_of_session(self, scores: Any) -> Any:
        """For each turn the mean of the three best scores of its conversation."""
        import numpy

        said = scores[self._order]
        some = numpy.flatnonzero(said)
        some = some[numpy.lexsort((-said[some], self._group[some]))]
        group = self._group[some]
        starts = numpy.flatnonzero(_changes(group))
        sizes = numpy.diff([*starts, len(group)])
        best = numpy.arange(len(group)) - numpy.repeat(starts, sizes) < SESSION_BEST
        sums = numpy.bincount(group[best], said[some[best]], minlength=len(self._starts))
        means = sums / numpy.minimum(self._sizes, SESSION_BEST)
        return self._spread(scores, means[self._group])

    def _spread(self, scores: Any, found: Any) -> Any:
        import numpy

        spread = numpy.zeros(len(scores))
        spread[self._order] = found
        return spread


def _changes(of: Any) -> Any:
    """Where another group begins, as a mask."""
    import numpy

    return numpy.concatenate([[True], of[1:] != of[:-1]]) if len(of) else of.astype(bool)
