"""python -m pellucid"""

import sys

from pellucid.cli import program

sys.exit(program())
