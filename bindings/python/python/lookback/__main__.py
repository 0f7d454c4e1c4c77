"""``python -m lookback``."""

import sys

from lookback._cli import main

sys.exit(main())
