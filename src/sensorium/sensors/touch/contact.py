"""Contact switch: whether a link touches something."""

from __future__ import annotations

from typing import Any

import mujoco
import torch
from pydantic import Field

from sensorium.pipeline import SignalSource
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.worlds import Names

_FORCE = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
_CONTACTS = 8
_MAX_FORCE, _NET_FORCE = 2, 3  # the contact sensor's "reduce": strongest contacts, and all contacts as one


class Contact(SimpleSensorOptions):
    """Options of a contact switch.

    It closes when the normal forces of the link's contacts (the eight strongest with each thing it touches) add up to
    more than ``threshold``: forces that press from opposite sides add up too. The generic imperfections act on that
    sum, in newtons, before the threshold: noise makes it bounce.

    Example:
        >>> touch = scene.add_sensor(sn.Contact(link="foot", threshold=1.0, touching="ground"))
        >>> touch.read()   # (B, 1) bool
    """

    link: str
    """The link whose contacts count; those of its child links do not."""
    threshold: float = Field(default=0.0, ge=0)
    """Normal force in N above which it closes."""
    touching: str | tuple[str, ...] = ()
    """Links that count as touched. Default: everything."""


class ContactSensor(SimpleSensor[torch.Tensor], options=Contact):
    """See :class:`Contact`. Reads (B, 1) bool; of the substep that ended now."""

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        self._names = declare_contacts(spec, names, self.options, self.uuid, _MAX_FORCE, _CONTACTS)

    def _sources(self) -> list[SignalSource]:
        # three numbers a contact, of which the first is along the normal
        return [SignalSource(self._names, tuple(range(0, 3 * _CONTACTS, 3)))]

    def _get_return_format(self) -> Format:
        return (1,)

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"threshold": ("custom", slice(0, 1))}

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.bool

    @classmethod
    def _build_group(cls, group: Any) -> None:
        thresholds = torch.zeros(len(group.sensors), group.n_envs, device=group.device)
        group.parameters["threshold"] = thresholds
        group.thresholds = None
        if not group.world.is_gpu:
            from sensorium.sensors.touch.kernels import exceed

            group.thresholds, group.exceed = thresholds.numpy(), exceed

    @classmethod
    @replayable
    def _post_process(cls, group: Any, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        if group.thresholds is None:
            torch.gt(data, group.parameters["threshold"], out=out)
        else:  # at one env, torch takes several times as long
            launch(group.exceed, group.array(data), group.thresholds, group.array(out))


def declare_contacts(
    spec: mujoco.MjSpec, names: Names, options: object, uuid: str, reduction: int = _NET_FORCE, count: int = 1
) -> tuple[str, ...]:
    """Add engine sensors for the contacts of ``options.link``, one for each link in ``options.touching``."""
    asked_by = f"{type(options).__name__}(uuid={uuid!r})"
    link, touching = options.link, options.touching  # type: ignore[attr-defined]
    body = names.body(link, f"{asked_by}.link").name
    others = [touching] if isinstance(touching, str) else list(touching)
    targets = [names.body(other, f"{asked_by}.touching").name for other in others] or [None]
    declared = []
    for number, target in enumerate(targets):
        sensor = spec.add_sensor(
            name=f"{uuid}:contact{number}",
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            reftype=mujoco.mjtObj.mjOBJ_BODY,
            refname=body,  # the second body of a contact is the one that the force acts on
        )
        if target is not None:
            sensor.objtype, sensor.objname = mujoco.mjtObj.mjOBJ_BODY, target
        sensor.intprm[:3] = _FORCE, reduction, count
        declared.append(sensor.name)
    return tuple(declared)
