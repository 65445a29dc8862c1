"""Scenes with sensors of touch and temperature that run on both engines, for tests that compare the two."""

import numpy as np
import torch
from everywhere import SHAPES

import sensorium as sn

_RANDOM = np.random.default_rng(7)


def _rows(values):
    return tuple(map(tuple, values.tolist()))


_POINTS, _NORMALS = _rows(0.25 * _RANDOM.normal(size=(24, 3))), _rows(_RANDOM.normal(size=(24, 3)))
_LATE = {"delay": 0.02, "jitter": 0.02, "rate": 60.0}
_SKIN = {
    "relaxation_fraction": 0.4, "relaxation_time": 0.05, "crosstalk_length": 0.1, "gain_spread": 0.2,
    "dead_taxels": (3,), "dead_fraction": 0.2,
}  # fmt: skip
_ON = {"link": "eye", "pos": (0.1, 0.05, -0.1), "euler": (0.4, 0.2, 0.9)}
PROBES = (
    sn.Proximity(uuid="near", positions=_POINTS, max_range=0.6, noise=0.01, history_length=2, **_ON),
    sn.Proximity(uuid="own", positions=_POINTS[:5], frame="sensor", tracked=("mesh", "ellipsoid"), **_ON, **_LATE),
    sn.ContactDepthProbe(uuid="any", positions=_POINTS, radius=0.15, **_ON, **_SKIN),
    sn.ContactDepthProbe(uuid="facing", positions=_POINTS, normals=_NORMALS, radius=0.2, noise=0.01, **_ON, **_LATE),
    sn.ContactDepthProbe(uuid="along", positions=_POINTS, normals=_NORMALS, radius=0.3, depth="normal", **_ON),
    sn.ContactProbe(
        uuid="switch", positions=_POINTS[:11], radius=0.2, contact_threshold=0.03, release_threshold=0.02,
        noise=0.005, gain_spread=0.1, **_ON,
    ),
    sn.ContactProbe(uuid="late", positions=_POINTS[:3], radius=0.3, contact_threshold=0.02, **_ON, **_LATE),
    sn.TactileArray(
        uuid="springs", positions=_POINTS, normals=_NORMALS, radius=0.2, stiffness=100.0, exponent=1.5, damping=2.0,
        shear_stiffness=50.0, twist_stiffness=0.5, friction=0.6, noise=0.1, **_ON, **_SKIN,
    ),
    sn.TactileArray(
        uuid="pad", grid=(5, 7), spacing=0.1, radius=0.3, stiffness=300.0, depth="nearest", frame="taxel", **_ON,
        **_LATE,
    ),
    sn.ElastomerDisplacement(
        uuid="gel", grid=(7, 9), size=(1.2, 1.2), thickness=0.5, dilation_length=0.1, shear_length=0.08, friction=0.7,
        noise=1e-4, **_ON, **_SKIN,
    ),
    sn.ElastomerDisplacement(
        uuid="late_gel", grid=(3, 2), size=(1.2, 1.2), thickness=0.6, dilation_length=0.5, shear_length=0.5, **_ON,
        **_LATE,
    ),
)  # fmt: skip
"""Every kind of probe, among all kinds of geoms."""


def probes_scene(n_envs=5, device="cpu", sensors=PROBES):
    """Return a built scene with all shapes, which drift and turn around a body with probes, and pass through it."""
    scene = sn.Scene(dt=0.01, substeps=2, gravity=(0, 0, 0))
    # nothing collides, but probes find geoms that could
    scene.add_robot(SHAPES.replace("<geom ", '<geom contype="1" conaffinity="0" '), name="shapes")
    for options in sensors:
        scene.add_sensor(options)
    scene.build(n_envs=n_envs, seed=5, device=device)
    start(scene)
    return scene


def start(scene):
    """Give all bodies of :func:`probes_scene` their velocities."""
    speeds = np.random.default_rng(1).normal(size=(scene.world.n_envs, scene.model.nv))
    qvel = scene.world.bind("qvel")
    qvel.copy_(qvel.new_tensor(speeds))
    scene.forward()


FINGER = """
<mujoco model="finger"><worldbody><body name="finger" pos="0 0 0.12">
  <joint name="down" type="slide" axis="0 0 -1" damping="20"/>
  <joint name="side" type="slide" axis="1 0 0" damping="20"/>
  <joint name="turn" axis="0 0 1" damping="0.1"/><geom type="box" size="0.02 0.02 0.01" mass="0.2"/>
</body></worldbody>
<actuator><position joint="down" kp="400"/><position joint="side" kp="100"/><position joint="turn" kp="0.5"/></actuator>
</mujoco>
"""
_UNDER = {"link": "finger", "pos": (0, 0, -0.0095), "euler": (np.pi, 0, 0)}
_CURVED = _rows(np.stack([_RANDOM.uniform(-0.02, 0.02, 40), _RANDOM.uniform(-0.02, 0.02, 40), np.zeros(40)], axis=1))
_BENT = _rows(np.array(_CURVED) * (30, 30, 0) + (0, 0, 1))
PRESSES = (
    sn.TactileArray(uuid="skin", grid=(16, 16), spacing=0.0025, noise=0.01, gain_spread=0.1, **_UNDER),
    sn.TactileArray(
        uuid="bent", positions=_CURVED, normals=_BENT, radius=0.002, exponent=1.5, tracked=("box", "stone"),
        frame="taxel", relaxation_fraction=0.3, delay=0.02, jitter=0.02, **_UNDER,
    ),
    sn.TactileArray(uuid="line", grid=(1, 9), spacing=0.004, radius=0.002, crosstalk_length=0.004, **_UNDER),
)  # fmt: skip
"""Tactile arrays that share the engine's contact forces: on a plane, on a curved skin, and in one line."""
HEAT = (
    sn.TemperatureGrid(
        uuid="warm", link="finger", grid_size=(3, 3, 2), sensor_time_constant=0.05, heat=2.0, noise=0.05,
        materials={"finger": "copper", "box": "steel"}, temperatures={"box": 80.0}, contact_area=1e-5,
    ),
    sn.TemperatureGrid(
        uuid="cool", link="stone", grid_size=(2, 2, 2), convection=50.0, ambient=30.0, rate=40.0, delay=0.02,
    ),
)  # fmt: skip
"""Temperatures of links that touch, and of links that they touch."""


def press_scene(n_envs=5, device="cpu", sensors=PRESSES + HEAT):
    """Return a built scene with a finger that presses on a box and drags it along, with another force in each env."""
    scene = sn.Scene(dt=0.01, substeps=4)
    scene.add_object(sn.Plane(), name="floor")
    scene.add_object(sn.Box(size=(0.08, 0.08, 0.08), mass=0.5), name="box", pos=(0.005, 0, 0.0401), free=True)
    # a sphere: between two boxes the engines find other contact points and normals, and so divide forces otherwise
    scene.add_object(sn.Sphere(radius=0.03, mass=0.3), name="stone", pos=(0.072, 0.01, 0.0301), free=True)
    scene.add_robot(FINGER, name="finger")
    for options in sensors:
        scene.add_sensor(options)
    scene.build(n_envs=n_envs, seed=3, device=device)
    press(scene)
    return scene


def press(scene):
    """Command the finger of :func:`press_scene` to a position below the surface of the box."""
    n = scene.world.n_envs
    ctrl = np.stack([np.linspace(0.035, 0.06, n), np.linspace(0.0, 0.02, n), np.linspace(-0.3, 0.3, n)], axis=1)
    scene["finger"].set_ctrl(ctrl)


TOLERANCES = {
    "near.distances": (0, 1e-5),
    "near.points": (0, 1e-5),
    "own.distances": (0, 1e-5),
    "own.points": (0, 1e-5),
    "any": (0, 1e-5),
    "facing": (0, 2e-5),
    "along": (1e-5, 2e-5),
    "switch": (0, 0),
    "late": (0, 0),
    "springs.force": (1e-4, 1e-2),  # the damper follows velocities, and slip starts with the first touch
    "springs.torque": (1e-4, 1e-4),
    "pad.force": (1e-4, 1e-2),
    "pad.torque": (1e-4, 1e-4),
    "gel": (1e-4, 2e-5),
    "late_gel": (1e-4, 2e-5),
    "skin.force": (1e-2, 2e-3),  # the solvers of contacts stop at different iterates
    "skin.torque": (1e-2, 1e-6),
    "bent.force": (1e-2, 1e-2),
    "bent.torque": (1e-2, 1e-5),
    "line.force": (1e-2, 1e-2),
    "line.torque": (1e-2, 1e-5),
    "warm": (0, 0.05),
    "cool": (0, 0.05),
}
"""Relative and absolute tolerance of each reading between both engines, in SI units and °C, from the same state."""


class Agreement:
    """Collects how well two scenes agree: nearly all numbers within the tolerances.

    A probe at an edge or at first touch may find a surface in float64 and miss it in float32. At most 1% of a sensor's
    numbers may do so in a step, and 0.2% on average. Forces of contacts may differ for 3% in a step: the engines
    find normals between boxes that differ by some milliradians.
    """

    def __init__(self):
        self.apart = {}

    def __call__(self, field, what, expected, got):
        rtol, atol = TOLERANCES[field.removesuffix(".value")]
        off = ~torch.isclose(got.double(), expected.double(), rtol=rtol, atol=atol)
        self.apart.setdefault(field, []).append(off.double().mean().item())
        allowed = max(0.03 if rtol == 1e-2 else 0.01, 1.5 / off.numel())
        assert self.apart[field][-1] <= allowed, f"{what}: {self.apart[field][-1]:.1%} differ"

    def finish(self):
        """Check the means over all steps."""
        for field, shares in self.apart.items():
            assert np.mean(shares) < 0.002, f"{field}: {np.mean(shares):.2%} of the numbers differ"
