"""The ledger that every row measures: filled once, joined by each row's process."""

import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import memoriale
from memoriale.adapters.embedded import stop
from memoriale.adapters.library.ledger import Ledger

TENANT = "bench"
OWNERS = 20
_WORDS = [
    "harbour",
    "window",
    "ledger",
    "coffee",
    "invoice",
    "meeting",
    "garden",
    "music",
    "doctor",
    "ticket",
    "travel",
    "winter",
    "Berlin",
    "kitchen",
    "cable",
    "engine",
    "paper",
    "bridge",
    "lesson",
    "market",
    "river",
    "camera",
    "battery",
    "printer",
    "contract",
    "holiday",
    "sister",
    "budget",
    "project",
    "deadline",
    "recipe",
    "mountain",
    "concert",
    "station",
    "museum",
]


@dataclass(frozen=True)
class Stage:
    """An open ledger, and how many events it is meant to hold."""

    ledger: Ledger
    events: int

    def items(self, count: int, seed: int) -> list[dict[str, object]]:
        """Memories of 20 owners in turn, of about 100 characters."""
        chosen = random.Random(seed)
        return [
            {
                "content": f"{sentence(chosen, 14)} ({seed}.{number})",
                "user": f"user-{number % OWNERS}",
                "importance": chosen.randrange(1000) / 1000,
                "tags": [chosen.choice(_WORDS)],
            }
            for number in range(count)
        ]

    def filled(self) -> "Stage":
        """The same with at least ``events`` events in it."""
        memory = self.ledger.memory(tenant=TENANT)
        missing = self.events - self.ledger.tenant(TENANT).log.head()
        for start in range(0, max(0, missing), 1_000):
            memory.remember_many(self.items(min(1_000, missing - start), seed=start))
        return self


def sentence(chosen: random.Random, words: int) -> str:
    """Random words that repeat from text to text as those of real ones do."""
    return " ".join(chosen.choice(_WORDS) for _ in range(words))


def joined(events: int) -> Stage:
    """The run's ledger, opened by this process."""
    return Stage(memoriale.open(wait=600), events)


def stopped(home: Path) -> None:
    """Ends the run's database server."""
    stop(home)


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def median_ms(action: Callable[[int], object], times: int) -> float:
    """Median of an action's duration in milliseconds; it is told how often it ran before."""
    return statistics.median(seconds(lambda n=n: action(n)) for n in range(times)) * 1000  # type: ignore[misc]


def peak_mib() -> int:
    """The most memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (peak // 1024 if sys.platform == "darwin" else peak) // 1024


def result(
    unit: str,
    floor: float,
    ours: float,
    against: str,
    *,
    higher_is_better: bool,
    peak: int | None = None,
) -> dict[str, object]:
    """
    What a row prints. The ratio is ours to the floor; above 1 is more of the unit. ``peak`` is
    the memory of ours, where the floor takes more.
    """
    return {
        "unit": unit,
        "floor": round(floor, 3),
        "ours": round(ours, 3),
        "ratio": round(ours / floor, 3),
        "higher_is_better": higher_is_better,
        "peak_mib": peak_mib() if peak is None else peak,
        "against": against,
    }
