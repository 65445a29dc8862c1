"""A sensor with a known raw signal: column c of env b, counted from 0, is ``(c + 1) * sin(3 t + b)``.

Variants of it use float64, or run their stages as hooks.
"""

import torch

import sensorium as sn


class Probe(sn.sensors.SimpleSensorOptions):
    """Options of the probe."""

    columns: int = 3
    """Number of columns."""


class ProbeSensor(sn.sensors.SimpleSensor[torch.Tensor], options=Probe):
    def _get_return_format(self):
        return (self.options.columns,)

    @classmethod
    def _build_group(cls, group):
        columns = torch.cat([torch.arange(part.stop - part.start) for part in group.slices]) + 1
        return columns.to(group.device)

    @classmethod
    def _update_raw_data(cls, group, out):
        out.copy_(group.backend[:, None] * torch.sin(3 * group.world.time + group.env_ids))


class DoublePrecision:
    """Mixin of sensors that compute in float64 and read it."""

    @classmethod
    def _get_intermediate_dtype(cls):
        return torch.float64

    @classmethod
    def _get_cache_dtype(cls):
        return torch.float64


class DoubleProbe(Probe):
    pass


class DoubleProbeSensor(DoublePrecision, ProbeSensor, options=DoubleProbe):
    pass


class HookedProbe(Probe):
    """A probe whose stages run as hooks instead of in the fused step."""


class HookedProbeSensor(ProbeSensor, options=HookedProbe):
    @classmethod
    def _apply_hardware_imperfections(cls, group, data):
        group.imperfect(data)


class HookedDoubleProbe(DoubleProbe):
    pass


class HookedDoubleProbeSensor(DoubleProbeSensor, options=HookedDoubleProbe):
    @classmethod
    def _apply_hardware_imperfections(cls, group, data):
        group.imperfect(data)


def probe_scene(*options, n_envs=2, seed=0, dt=0.01):
    """Return a built scene with these probes and a ball, followed by the sensors."""
    scene = sn.Scene(dt=dt, substeps=1)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    sensors = [scene.add_sensor(each) for each in options]
    scene.build(n_envs=n_envs, seed=seed)
    return scene, *sensors
