"""``python -m sensorium.cli``: the command ``sensorium``."""

import sys

from sensorium.cli import main

sys.exit(main())
