"""Contact switch: whether a link touches anything."""

from __future__ import annotations

from typing import Protocol

import mujoco
import torch
from pydantic import Field

from sensorium.pipeline import SensorGroup, SignalSource
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.touch.contact_backend import ContactBackend, CpuContact, GpuContact
from sensorium.worlds import Names

_FORCE = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
_CONTACTS = 8
_MAX_FORCE, _NET_FORCE = 2, 3  # the contact sensor's "reduce": the strongest contacts, or all contacts as one


class Contact(SimpleSensorOptions):
    """Options of a contact switch.

    It closes when the normal forces of the link's eight strongest contacts (with each link in ``touching``, if that is
    set) add up to more than ``threshold``. Forces from opposite sides add up, too. The generic imperfections act on
    this sum, in N, before the threshold: noise makes the switch bounce.

    Example:
        >>> touch = scene.add_sensor(sn.Contact(link="foot", threshold=1.0, touching="ground"))
        >>> touch.read()   # (B, 1) bool
    """

    link: str
    """Link whose contacts count, without those of its child links."""
    threshold: float = Field(default=0.0, ge=0)
    """Normal force above which the switch closes, N."""
    touching: str | tuple[str, ...] = ()
    """Links with which contacts count. Default: all."""


class ContactSensor(SimpleSensor[torch.Tensor], options=Contact):
    """Contact switch. See :class:`Contact`.

    Reads (B, 1) bool, from the contacts during the substep that ended at the reading.
    """

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        self._names = declare_contacts(spec, names, self.options, self.uuid, _MAX_FORCE, _CONTACTS)

    def _sources(self) -> list[SignalSource]:
        # three numbers per contact, the first of which is along the normal
        return [SignalSource(self._names, tuple(range(0, 3 * _CONTACTS, 3)))]

    def _get_return_format(self) -> Format:
        return (1,)

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"threshold": ("custom", slice(0, 1))}

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.bool

    @classmethod
    def _build_group(cls, group: SensorGroup[ContactBackend]) -> ContactBackend:
        return GpuContact(group) if group.is_gpu else CpuContact(group)

    @classmethod
    @holds_output
    @replayable
    def _post_process(
        cls, group: SensorGroup[ContactBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out)


class ContactOptions(Protocol):
    """Options that select contacts."""

    @property
    def link(self) -> str:
        """Link whose contacts count."""

    @property
    def touching(self) -> str | tuple[str, ...]:
        """Links with which they count."""


def declare_contacts(
    spec: mujoco.MjSpec, names: Names, options: ContactOptions, uuid: str, reduction: int = _NET_FORCE, count: int = 1
) -> tuple[str, ...]:
    """Add the engine's sensors for the contacts of ``options.link``, one for each link in ``options.touching``.

    Args:
        spec: the scene.
        names: names in the scene.
        options: which contacts.
        uuid: the sensor, for names and error messages.
        reduction: how the engine's sensor reduces its contacts.
        count: how many contacts it reports.

    Returns:
        The names of the engine's sensors.
    """
    asked_by = f"{type(options).__name__}(uuid={uuid!r})"
    body = names.body(options.link, f"{asked_by}.link").name
    others = [options.touching] if isinstance(options.touching, str) else list(options.touching)
    targets = [names.body(other, f"{asked_by}.touching").name for other in others] or [None]
    declared = []
    for number, target in enumerate(targets):
        sensor = spec.add_sensor(
            name=f"{uuid}:contact{number}",
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            reftype=mujoco.mjtObj.mjOBJ_BODY,
            refname=body,  # the force acts on the second body of a contact
        )
        if target is not None:
            sensor.objtype, sensor.objname = mujoco.mjtObj.mjOBJ_BODY, target
        sensor.intprm[:3] = _FORCE, reduction, count
        declared.append(sensor.name)
    return tuple(declared)
