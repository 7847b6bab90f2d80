"""python -m pellucid.cli"""

import sys

from pellucid.cli import main

sys.exit(main())
