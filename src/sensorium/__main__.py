"""``python -m sensorium``: the command ``sensorium``."""

import sys

from sensorium.cli import main

sys.exit(main())
