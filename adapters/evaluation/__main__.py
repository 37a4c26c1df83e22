"""The program behind ``scripts/eval-recall``."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from memoriale.adapters.evaluation.runner import LEGS, evaluate
from memoriale.adapters.evaluation.scores import CUTOFFS, cutoffs
from memoriale.domain.errors import MemorialeError


def main(arguments: list[str] | None = None) -> int:
    """Measures, prints, and returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        reports = evaluate(
            options.folder, top_k=options.top_k, legs=options.legs, embedder=options.embedder
        )
        for report in reports:
            _print(report, options.top_k, as_json=options.json)
    except MemorialeError as error:
        shown = json.dumps({"error": error.as_dict()}) if options.json else error.message
        print(shown, file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="eval-recall",
        description="Scores recall over a folder of conversations in the LoCoMo format.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="holds *.json files")
    parser.add_argument("--top-k", type=int, default=max(CUTOFFS), help="default: %(default)s")
    parser.add_argument(
        "--legs", help=f"only one of {', '.join(LEGS)}; default: hybrid, compared with the others"
    )
    parser.add_argument("--embedder", metavar="SPEC", help="as MEMORIALE_EMBEDDER")
    parser.add_argument("--json", action="store_true", help="JSON lines, the last over all")
    return parser


def _print(report: dict[str, Any], top_k: int, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report, ensure_ascii=False), flush=True)
        return
    name = report.get("sample_id", "all conversations")
    print(f"{name}: {_line(report, top_k)}", flush=True)
    for leg in LEGS:
        if leg in report:
            print(f"{leg} alone: {_line(report[leg], top_k)}")
    if "sample_id" not in report:
        for category, means in report["by_category"].items():
            print(f"  {category}: {_line(means, top_k)}")
        print(f"  latency: p50 {report['p50_ms']:.1f} ms, p95 {report['p95_ms']:.1f} ms")


def _line(means: dict[str, Any], top_k: int) -> str:
    names = [f"recall@{k}" for k in cutoffs(top_k)]
    scores = ", ".join(f"{name} {means[name]:.3f}" for name in names if name in means)
    return f"{means['questions']} questions, {scores}" if scores else "no questions"


if __name__ == "__main__":
    sys.exit(main())
