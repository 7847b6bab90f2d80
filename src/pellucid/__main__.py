"""python -m pellucid"""

import sys

from pellucid.cli import main

sys.exit(main())
