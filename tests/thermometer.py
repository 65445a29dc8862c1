"""The thermometer of docs/custom_sensor.md, as it stands there, for the contract and the tests of hooks."""

import math
import re
from pathlib import Path

_PAGE = Path(__file__).parent.parent / "docs" / "custom_sensor.md"
_CODE = re.search(r"```python\n(.*?)\n\n\nscene = ", _PAGE.read_text(), re.DOTALL).group(1)
exec(compile(_CODE, str(_PAGE), "exec"))

Thermometer = globals()["Thermometer"]


def first_order(t: float, tau: float) -> float:
    """Step response of the element."""
    return 1 - math.exp(-t / tau)
