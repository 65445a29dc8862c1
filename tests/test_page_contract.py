"""The sensors of docs/custom_sensor.md pass the sensor contract."""

import re
from pathlib import Path
from typing import Any, ClassVar

import sensorium as sn
from sensorium.testing import SensorContract

PAGE = Path(__file__).parents[1] / "docs" / "custom_sensor.md"


def page_classes() -> dict[str, Any]:
    """Run the code of the page up to the scene of each example."""
    names: dict[str, Any] = {"__name__": "custom_sensor"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        exec(block.split("\nscene = ")[0], names)
    return names


CLASSES = page_classes()


class Falling(SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "random_walk": 0.05}
    options = ""

    def make_scene(self):
        scene = sn.Scene(dt=0.01, substeps=2)
        scene.add_object(sn.Box(), name="box", pos=(0, 0, 0.5), free=True)
        return scene

    def make_options(self, **options):
        return CLASSES[self.options](link="box", **options)


class TestAltimeter(Falling):
    options = "Altimeter"


class TestThermometer(Falling):
    options = "Thermometer"


class TestSonarAltimeter(Falling):
    options = "SonarAltimeter"


class TestVariometer(Falling):
    options = "Variometer"


class TestVibration(Falling):
    options = "Vibration"


class TestEchoSounder(Falling):
    options = "EchoSounder"


del Falling, SensorContract  # pytest would collect them
