"""`scripts/eval coding|locomo --data FILE`: recall by category, the same on every run and machine.

`scripts/eval truth --data FOLDER`: what is known of sample transcripts, held against what is read of them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from evaluating import asking, coding, locomo, truth

SETS = {"coding": coding.evaluate, "locomo": locomo.evaluate, "truth": truth.evaluate}


def main() -> None:
    """Ask every question of a set, and print how many of the answers were found."""
    parser = argparse.ArgumentParser(prog="scripts/eval", description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--data", type=Path, required=True, help="the file of questions; truth: the folder of samples")
    parser.add_argument("--transcripts", type=Path, help="coding: the folder that questions name files in")
    parser.add_argument("--engine", default="", help="make vectors with this engine, and search with them too")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    asking.ENGINE = asked.engine
    table = SETS[asked.set](asked.data, asked.transcripts)
    if asked.json:
        print(json.dumps(table))
        return
    columns = list(next(iter(table.values())))
    print(f"{'':24}" + "".join(f"{name:>14}" for name in columns))
    for category, row in table.items():
        print(
            f"{category:24}"
            + "".join(f"{row[name]:14.3f}" if isinstance(row[name], float) else f"{row[name]:14}" for name in columns)
        )


if __name__ == "__main__":
    main()
