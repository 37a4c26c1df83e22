"""What the access log costs a recall: the same questions with it and without."""

import random
import statistics

from stage import OWNERS, TENANT, Stage, result, seconds, sentence

_ROUNDS = 6
_QUESTIONS = 250


def access_log(stage: Stage) -> dict[str, object]:
    """Recall with the access log of ids, against recall without one."""
    return _against_off(stage, "ids")


def access_log_full(stage: Stage) -> dict[str, object]:
    """Recall with the access log that keeps questions, against recall without one."""
    return _against_off(stage, "full")


def _against_off(stage: Stage, mode: str) -> dict[str, object]:
    stage.filled()
    recorder = stage.ledger.tenant(TENANT).recorder
    chosen = random.Random(9)
    questions = [sentence(chosen, 6) for _ in range(_QUESTIONS)]
    users = [
        stage.ledger.memory(tenant=TENANT, user=f"user-{n}", session=f"session-{n}")
        for n in range(OWNERS)
    ]
    for user in users:
        user.recall("catch up first", wait=3_600)
    recorder.flush()
    times: dict[str, list[float]] = {"off": [], mode: []}
    # In turns, each to its end with what it has still to write, so that neither pays for the other.
    for number in range(2 * _ROUNDS):
        recorder.mode = list(times)[number % 2]
        for n, question in enumerate(questions):
            times[recorder.mode].append(
                seconds(lambda n=n, q=question: users[n % OWNERS].recall(q, top_k=10))  # type: ignore[misc]
            )
        recorder.flush()
    off, on = (statistics.median(times[name]) * 1_000 for name in ("off", mode))
    means = statistics.fmean(times[mode]) / statistics.fmean(times["off"])
    row = result("ms p50", off, on, "recall with the access log off", higher_is_better=False)
    return {**row, "ratio_of_means": round(means, 3)}
