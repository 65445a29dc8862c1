"""Scenes that run on both engines, for tests that compare the two."""

import numpy as np

import sensorium as sn

_RANDOM = np.random.default_rng(0)
_VERTICES = " ".join(f"{x:.3f}" for x in (0.15 * _RANDOM.normal(size=(40, 3))).ravel())
_HEIGHTS = " ".join(f"{x:.2f}" for x in _RANDOM.random(72))
_BODIES = {
    "box": 'size=".2 .3 .1"',
    "sphere": 'size=".2"',
    "capsule": 'size=".1 .2"',
    "cylinder": 'size=".15 .2"',
    "ellipsoid": 'size=".1 .2 .3"',
    "mesh": 'mesh="stone"',
}
SHAPES = f"""
<mujoco model="shapes">
  <asset>
    <mesh name="stone" vertex="{_VERTICES}"/>
    <hfield name="hills" nrow="8" ncol="9" size="2 2 .4 .1" elevation="{_HEIGHTS}"/>
  </asset>
  <worldbody>
    <geom type="plane" size="3 3 .1" pos="0 0 -1"/>
    <geom type="hfield" hfield="hills" pos="0 0 -.85"/>
    <geom type="sphere" size=".1" pos="0 0 .6" rgba="1 1 1 0"/>
    {
    "".join(
        f'<body name="{name}" pos="{np.cos(i):.2f} {np.sin(i):.2f} {0.15 * i - 0.2:.2f}" '
        f'euler="{20 * i} {33 * i} {7 * i}"><freejoint/><geom type="{name}" {size} rgba="{0.15 * i} .5 .9 1"/></body>'
        for i, (name, size) in enumerate(_BODIES.items())
    )
}
    <body name="eye" pos=".05 .02 .1"><freejoint/><geom type="sphere" size=".05"/>
      <body name="hat" pos="0 0 .1"><geom type="box" size=".3 .3 .01" mass=".1"/></body></body>
  </worldbody>
</mujoco>
"""
ALL = ("distances", "points", "normals", "body_ids", "intensity")
ROUGH = {"noise": 0.01, "noise_per_metre": 0.02, "ray_dropout": 0.1}
_SPHERE = sn.SphericalPattern(fov=(360, 100), n_points=(24, 9))
RAYS = (
    sn.Lidar(link="eye", uuid="lidar", pattern=_SPHERE, max_range=4.0, returns=ALL, **ROUGH),
    sn.Lidar(link="eye", uuid="late", pattern=_SPHERE, no_hit=-1.0, rate=40.0, delay=0.02, history_length=2, **ROUGH),
    sn.Lidar(
        link="eye", uuid="scan", euler=(0.1, 0.2, 0.3), pattern=_SPHERE, scan_rate=15.0, exclude_self=True,
        frame="world", returns=ALL, **ROUGH,
    ),
    sn.Raycaster(
        link="eye", uuid="heights", pos=(0, 0, 1.5), alignment="yaw", frame="world", exclude=("hat", "box", "sphere"),
        divergence=0.05, pattern=sn.GridPattern(size=(1.6, 1.0), resolution=0.2), returns=ALL,
    ),
    sn.Raycaster(
        link="hat", uuid="fixed", alignment="world", min_range=0.5, no_hit=float("nan"), exclude="eye",
        pattern=sn.RingPattern(n_points=60),
    ),
    sn.DepthCamera(link="eye", uuid="depth", width=16, height=12, no_hit=float("inf"), max_range=3.0, noise=0.01),
)  # fmt: skip

_FIELDS = ("distances", "points", "normals", "body_ids", "intensity", "times")
_ECHOES = ("first", "second", "last", "strongest")
_SURFACES = {"near_range": 0.5, "reflectivity": {"box": 0.9}, "retro_reflectors": {"sphere": 40.0}}
LIDARS = (
    sn.Lidar(
        link="eye", uuid="echo", pattern=sn.SphericalPattern(fov=(360, 100), n_points=(24, 9)), max_range=4.0,
        returns=_FIELDS, divergence=0.3, rays_per_beam=12, echo_separation=0.1, echoes=_ECHOES, threshold=0.01,
        extinction=0.05, noise=0.01, ray_dropout=0.1, **_SURFACES,
    ),
    sn.Lidar(
        link="eye", uuid="scan", pattern=sn.SphericalPattern(fov=(360, (-70, 20)), n_points=(24, 3)), scan_rate=15.0,
        frame="world", returns=_FIELDS, divergence=0.2, echoes=("strongest", "last"), noise_per_metre=0.02,
    ),
    sn.Lidar(
        link="eye", uuid="rosette", pattern=sn.RosettePattern(n_points=60, fov=120.0, repeat_after=4, point_rate=6e3),
        scan_rate=13.0, frame="world", returns=_FIELDS, exclude_self=True, euler=(0.1, 0.2, 0.3), delay=0.02, noise=0.1,
    ),
    sn.Lidar(link="eye", uuid="plain", pattern=sn.RingPattern(n_points=40), returns=_FIELDS, **_SURFACES),
)  # fmt: skip
"""Lidars with echoes, scans, a pattern that moves, and plain rays."""


def shapes_scene(n_envs=3, device="cpu", rays=RAYS):
    """Return a built scene with all shapes, which drift and turn without gravity around a body with ray sensors."""
    scene = sn.Scene(dt=0.01, substeps=2, gravity=(0, 0, 0))
    scene.add_robot(SHAPES.replace("<geom ", '<geom contype="0" conaffinity="0" '), name="shapes")
    for options in rays:
        scene.add_sensor(options)
    scene.build(n_envs=n_envs, seed=5, device=device)
    speeds = np.random.default_rng(1).normal(size=(n_envs, scene.model.nv)) * 0.5
    qvel = scene.world.bind("qvel")
    qvel.copy_(qvel.new_tensor(speeds))
    scene.forward()
    return scene


CART = """
<mujoco model="cart"><worldbody><body name="cart" pos="0 0 0.1"><freejoint/>
  <geom type="box" size="0.2 0.1 0.03" mass="5"/>
  <geom type="sphere" size="0.05" pos="-0.15 0 -0.05" friction="0.01 0 0" mass="0.1" priority="1"/>
  <body name="l" pos="0 0.2 0"><joint name="left" axis="0 1 0" damping="0.05"/>
    <geom type="sphere" size="0.1" mass="0.5"/></body>
  <body name="r" pos="0 -0.2 0"><joint name="right" axis="0 1 0" damping="0.05"/>
    <geom type="sphere" size="0.1" mass="0.5"/></body></body></worldbody>
<actuator><velocity name="vl" joint="left" kv="0.2"/><velocity name="vr" joint="right" kv="0.2"/></actuator></mujoco>
"""
_GPS = {"link": "cart", "origin": (47.4, 8.5, 408.0), "vel_noise": 0.1}
_WHEELS = {"left": "left", "right": "right", "radius": 0.1, "track": 0.4}
MOBILE = (
    sn.GPS(uuid="gps", noise=0.05, horizontal_error=1.5, loss_rate=5.0, reacquire_time=0.04, **_GPS),
    sn.GPS(uuid="slow", rate=40.0, delay=0.02, jitter=0.01, history_length=3, loss_rate=2.0, bias_spread=1.0, **_GPS),
    sn.WheelOdometry(uuid="odometry", vel_noise=0.1, right_radius_error=0.05, track_error=-0.02, **_WHEELS),
    sn.WheelOdometry(uuid="counted", counts_per_revolution=512, delay=0.02, **_WHEELS),
    sn.BatteryState(uuid="battery", capacity=0.01, idle_power=12.0, holding_loss=0.5, voltage_noise=0.02),
    sn.BatteryState(uuid="small", actuators=("vl",), capacity=1e-3, regeneration=0.5, internal_resistance=0.0,
                    voltage_curve=((0.0, 10.0), (1.0, 12.0)), initial_charge=0.7, rate=30.0),
)  # fmt: skip


def mobile_scene(n_envs=5, device="cpu", sensors=MOBILE):
    """Return a built scene with a cart that drives a curve and carries the sensors of mobile robots."""
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane())
    scene.add_robot(CART, name="cart")
    for options in sensors:
        scene.add_sensor(options)
    scene.build(n_envs=n_envs, seed=6, device=device)
    scene["cart"].set_ctrl([4.0, 7.0])
    return scene
