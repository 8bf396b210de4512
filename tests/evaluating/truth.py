"""What is known of sample transcripts, held against what is read of them: the tests that do so, run and counted.

The data is a folder with `transcripts/` (published sessions and hand-made traps) and `transcripts-live/` (real runs),
each with files that say what is in it. The tests look for it beside the checkout.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent.parent
#: The tests that compare with what is known.
CHECKS = ("contracts/sources", "contracts/agents", "journeys/test_ingesting.py")


class _Outcomes:
    """A plug-in that counts how tests end."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] += 1


def evaluate(data: Path, _: Path | None) -> dict[str, dict[str, Any]]:
    """Return how many files, traps and real runs are known, and how the tests ended that hold Bede against them."""
    known = {
        "files": len(json.loads((data / "transcripts/expected.json").read_text("utf-8"))),
        "traps": len(json.loads((data / "transcripts/synthetic/expected_handmade.json").read_text("utf-8"))),
        "runs": sum(1 for _ in (data / "transcripts-live").glob("*/*/expected.json")),
    }
    ended = _Outcomes()
    with redirect_stdout(sys.stderr):
        pytest.main(["-q", "-n0", *(str(TESTS / name) for name in CHECKS)], [ended])
    return {"all": {**known, **{name: ended.counts[name] for name in ("passed", "failed", "skipped")}}}
