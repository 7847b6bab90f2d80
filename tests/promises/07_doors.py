"""Promise 07: whatever a door of the kernels is given, it computes what the plain equation computes, or raises the same
error; and so does the engine with a model that somebody changed by hand.

    python tests/promises/07_doors.py [--count 24000]

Each of the property tests in tests/kernels/test_doors.py and tests/engine/test_changed_models.py draws its share of the
cases: shapes, types, layouts, devices, patterns, contexts, and changes of a model.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {"tests/kernels/test_doors.py": 5, "tests/engine/test_changed_models.py": 1}  # property tests in each


def main() -> int:
    """Prints a line a door, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=24_000, help="of cases")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    share = math.ceil(arguments.count / sum(FILES.values()))
    os.environ["PELLUCID_DOOR_CASES"], os.environ["PELLUCID_REQUIRE_KERNELS"] = str(share), "1"
    code = pytest.main([f"--rootdir={ROOT}", "-p", "no:cacheprovider", *(str(ROOT / file) for file in FILES)])
    found: Counter[str] = Counter()
    for file in FILES:
        found += sys.modules[file.removesuffix(".py").replace("/", ".")].CASES
    for door, count in found.items():
        print(f"{door}: {count:,} cases alike")
    if arguments.json:
        arguments.json.write_text(json.dumps({"cases": share * sum(FILES.values()), "alike": found}, indent=1) + "\n",
                                  encoding="utf-8")
    print(f"promise 07: {found.total() if code == 0 else 0} of {found.total()}")
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main())
