"""Contact force: the net force of the contacts on a link."""

from __future__ import annotations

from typing import Any

import mujoco
import torch
from pydantic import model_validator

from sensorium.errors import OptionError
from sensorium.pipeline import SignalSource
from sensorium.pipeline.imperfections import Spread
from sensorium.pipeline.parameters import as_numbers
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.sensors.touch.contact import declare_contacts
from sensorium.worlds import Names, Painter


class ContactForce(SimpleSensorOptions, Mounted):
    """Options of a contact force sensor, which reads the sum of all contact forces on a link in the sensor's frame.

    Example:
        >>> force = scene.add_sensor(sn.ContactForce(link="foot", min_force=0.5, max_force=200.0, noise=0.1))
        >>> force.read()   # (B, 3) N
    """

    touching: str | tuple[str, ...] = ()
    """Links with which contacts count. Default: all."""
    min_force: Spread | None = None
    """Force per axis below which the sensor reads 0, N. Alternative to ``deadband``."""
    max_force: Spread | None = None
    """Force per axis at which the sensor saturates in both directions, N. Alternative to ``saturation``."""

    @model_validator(mode="after")
    def _check_names(self) -> ContactForce:
        if self.min_force is not None and self.deadband != 0.0:
            raise ValueError("min_force and deadband set the same parameter; give only one")
        if self.max_force is not None and self.saturation is not None:
            raise ValueError("max_force and saturation set the same parameter; give only one")
        return self


class ContactForceSensor(SimpleSensor[torch.Tensor], options=ContactForce):
    """Contact force sensor. See :class:`ContactForce`.

    Reads (B, 3) N, the force that acts on the link during the substep that ended at the reading.
    """

    kind = "contact_force"
    units = {"value": "N"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        self._names = declare_contacts(spec, names, self.options, self.uuid)
        site = add_site(spec, names, self.options, self.uuid)
        self._frame = f"{self.uuid}:frame"
        quat, site_type = mujoco.mjtSensor.mjSENS_FRAMEQUAT, mujoco.mjtObj.mjOBJ_SITE
        spec.add_sensor(name=self._frame, type=quat, objtype=site_type, objname=site)

    def _draw(self, painter: Painter, env: int) -> None:
        super()._draw(painter, env)
        self._draw_vector(painter, env, self._truths[env], 0.01)

    def _sources(self) -> list[SignalSource]:
        return [SignalSource(self._names, axis, frame=self._frame) for axis in range(3)]

    def _get_return_format(self) -> Format:
        return (3,)

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"min_force": ("deadband", slice(0, 3)), "max_force": ("saturation", slice(0, 3))}

    def _translate(self, name: str, value: Any) -> tuple[str, Any]:
        if name == "max_force" and value is not None:
            bound = as_numbers("ContactForce.max_force", value)
            if bound.device.type == "cpu" and bool((bound < 0).any()):
                raise OptionError(f"ContactForce.max_force must be >= 0, got {value!r}")
            return name, (-bound, bound)
        return name, value
