"""Run the command ``sensorium`` with ``python -m sensorium``."""

import sys

from sensorium.cli import main

sys.exit(main())
