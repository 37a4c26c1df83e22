"""How often each line came before in one input, in a few bytes a line."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_Run = tuple[NDArray[np.uint64], NDArray[np.int64]]


class Occurrences:
    """
    Counts digests; ten million distinct ones take 160 MB.

    Only the first eight bytes of a digest are kept. Should two different lines share them, one
    is given a higher number than it has, which changes its key but loses nothing.
    """

    def __init__(self) -> None:
        # Sorted runs, each at least twice as long as the next.
        self._runs: list[_Run] = []

    def before(self, digests: Sequence[bytes]) -> list[int]:
        """
        How often each digest came in earlier calls and earlier in this one.

        Args:
            digests: At least eight bytes each.
        """
        if not digests:
            return []
        keys = np.frombuffer(b"".join(digest[:8] for digest in digests), dtype=np.uint64)
        distinct, places = np.unique(keys, return_inverse=True)
        counts = np.zeros(len(distinct), dtype=np.int64)
        for run in self._runs:
            counts += _counts(run, distinct)
        known, answers = counts.copy(), []
        for place in places.tolist():
            answers.append(int(counts[place]))
            counts[place] += 1
        self._add((distinct, counts - known))
        return answers

    def _add(self, run: _Run) -> None:
        while self._runs and len(self._runs[-1][0]) < 2 * len(run[0]):
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)


def _counts(run: _Run, wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
    keys, counts = run
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, counts[places], 0)


def _merged(one: _Run, other: _Run) -> _Run:
    keys, places = np.unique(np.concatenate((one[0], other[0])), return_inverse=True)
    counts = np.zeros(len(keys), dtype=np.int64)
    np.add.at(counts, places, np.concatenate((one[1], other[1])))
    return keys, counts
