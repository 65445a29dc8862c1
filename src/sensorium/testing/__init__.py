"""``SensorContract``: tests that every sensor class must pass, for pytest.

Inherit it in a test class and define how to create a scene and the sensor's options::

    from sensorium.testing import SensorContract

    class TestThermometer(SensorContract):
        imperfections = {"noise": 0.1, "random_walk": 0.05}

        def make_scene(self):
            scene = sn.Scene(dt=0.01, substeps=2)
            scene.add_object(sn.Box(), name="box", pos=(0, 0, 0.5), free=True)
            return scene

        def make_options(self, **options):
            return Thermometer(link="box", **options)

Each test checks one guarantee of the pipeline, which its docstring states. ``docs/pipeline.md`` explains them. A test
that does not apply to a class is skipped with the reason.
"""

from __future__ import annotations

import sys

if (
    "pytest" in sys.modules
):  # only then: pytest is not a dependency. It explains the assertions that fail in these modules.
    sys.modules["pytest"].register_assert_rewrite(
        *(f"sensorium.testing.{name}" for name in ("hook_tests", "reading_tests", "runs", "time_tests"))
    )

from sensorium.testing.hook_tests import HookTests
from sensorium.testing.reading_tests import ReadingTests
from sensorium.testing.runs import flat, same, tensors
from sensorium.testing.time_tests import TimeTests

__all__ = ["SensorContract", "flat", "same", "tensors"]


class SensorContract(ReadingTests, TimeTests, HookTests):
    """Mixin of pytest tests for one sensor class.

    Override :meth:`make_scene`, :meth:`make_options` and ``imperfections``, and :meth:`drive` if the scene needs
    controls. ``start`` and ``run`` are helpers for further tests of your own.

    Example::

        class TestThermometer(SensorContract):
            imperfections = {"noise": 0.1}

            def make_scene(self):
                scene = sn.Scene(dt=0.01)
                scene.add_object(sn.Box(), name="box", pos=(0, 0, 0.5), free=True)
                return scene

            def make_options(self, **options):
                return Thermometer(link="box", **options)
    """
