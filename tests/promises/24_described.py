"""Promise 24: what a server answers is what /openapi.json says, whatever schemathesis thinks of asking.

    python tests/promises/24_described.py [--count 300] [--schemathesis PROGRAM] [--json FILE]

schemathesis reads the description of a server and asks so many times of each operation, most of it what the description
forbids. No answer may have a status of 500 or more, or a status, a type, headers or a body that the description does
not have; what it forbids must be refused. That all it allows is accepted is not asked for: what options mean together,
which languages there are, and that there must be something to look at, no schema says.

schemathesis is no dependency: without it, this says so and asks nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from serving import TINY, make_run, serving

NOT_SAID = "positive_data_acceptance"


def main() -> int:
    """Prints what schemathesis says of failures, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="of each operation, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemathesis", default="schemathesis")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    program = shutil.which(arguments.schemathesis)
    if program is None:
        print(f"promise 24: skipped, as there is no {arguments.schemathesis}: pip install schemathesis")
        return 0
    with tempfile.TemporaryDirectory() as folder, serving(make_run(Path(folder) / "run", TINY)) as server:
        words = ["run", f"http://127.0.0.1:{server.port}/openapi.json", "--phases", "examples,coverage,fuzzing",
                 "--max-examples", str(arguments.count), "--seed", str(arguments.seed), "--continue-on-failure",
                 "--exclude-checks", NOT_SAID, "--no-color"]
        done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
        told = server.log.read_text().splitlines()[1:]
    found = re.search(r"^ *([\d,]+) generated(?:, ([\d,]+) found)?", done.stdout, re.MULTILINE)
    asked, failed = (int((each or "0").replace(",", "")) for each in found.groups()) if found else (0, 0)
    if done.returncode or told:
        print(done.stdout[-20_000:], done.stderr[-2000:], *told[:20], sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps({"asked": asked, "failed": failed, "log": told}) + "\n", encoding="utf-8")
    holds = bool(asked) and not done.returncode and not told
    print(f"promise 24: {asked if holds else asked - max(failed, 1)} of {asked}")
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
