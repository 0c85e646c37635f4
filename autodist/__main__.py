"""``python -m autodist``."""

import sys

from autodist.cli import main

sys.exit(main())
