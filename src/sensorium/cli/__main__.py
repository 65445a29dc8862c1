"""Run the command ``sensorium`` with ``python -m sensorium.cli``."""

import sys

from sensorium.cli import main

sys.exit(main())
