"""Extra demo: examples/pick.py imports; script/demo runs it."""

import runpy
from pathlib import Path

assert runpy.run_path(str(Path(__file__).parents[2] / "examples" / "pick.py"), run_name="smoke")["main"]
