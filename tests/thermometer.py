"""The thermometer of docs/custom_sensor.md, taken from the page, for the contract and the tests of hooks."""

import math
import re
from pathlib import Path

_PAGE = Path(__file__).parent.parent / "docs" / "custom_sensor.md"
_CODE = re.search(
    r"```python\n((?:(?!```).)*?class Thermometer\(.*?)\n\n\nscene = ", _PAGE.read_text(), re.DOTALL
).group(1)
exec(compile(_CODE, str(_PAGE), "exec"))

Thermometer = globals()["Thermometer"]


def first_order(t: float, tau: float) -> float:
    """Return the step response of a first-order element with time constant ``tau``, at time ``t``, both in s."""
    return 1 - math.exp(-t / tau)
