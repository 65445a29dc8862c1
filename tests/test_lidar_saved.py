"""Fields of lidars in recordings, replays and observations: power, echoes, times and moving patterns are all kept."""

import numpy as np
import torch

import sensorium as sn
from sensorium.recording.replay import replay
from sensorium.testing import flat

FIELDS = ("distances", "points", "normals", "body_ids", "intensity", "times")
ECHO = sn.Lidar(
    link="base", uuid="echo", pattern=sn.SphericalPattern(fov=(90, (-20, 10)), n_points=(12, 3)), max_range=9.0,
    returns=FIELDS, divergence=0.1, rays_per_beam=8, echoes=("first", "last"), threshold=1e-3, extinction=0.02,
    reflectivity={"wall": 0.7}, retro_reflectors={"post": 50.0}, near_range=0.5, noise=0.01, scan_rate=20.0,
)  # fmt: skip
ROSETTE = sn.Lidar(
    link="base", uuid="rosette", pattern=sn.RosettePattern(n_points=40, point_rate=4000.0, repeat_after=3),
    returns=("distances", "points", "times"), scan_rate=20.0, delay=0.02, noise=0.01,
)  # fmt: skip


def yard():
    """Return a scene with a wall and a post before a ball that rolls on."""
    scene = sn.Scene(dt=0.01, substeps=2, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 8, 4)), name="wall", pos=(4, 0, 0))
    scene.add_object(sn.Box(size=(0.1, 0.1, 4)), name="post", pos=(2, 0.2, 0))
    scene.add_object(sn.Sphere(radius=0.1), name="base", free=True)
    return scene


def test_recorded_and_replayed_lidars_have_the_same_bits(tmp_path):
    scene = yard()
    sensors = [scene.add_sensor(options) for options in (ECHO, ROSETTE)]
    scene.build(n_envs=2, seed=4)
    scene.world.bind("qvel")[:, 0] = torch.tensor([0.5, -1.0]).double()
    read = []
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for step in range(12):
            if step == 5:
                sensors[0].set(threshold=0.05, extinction=0.3, envs=[1])
            scene.step()
            recorder.step()
            read.append([flat(sensor.read()).clone() for sensor in sensors])
    scene.close()
    recording = sn.datasets.open(tmp_path / "a")
    again = replay(tmp_path / "a", tmp_path / "b")
    for step in range(12):
        for uuid, expected in zip(("echo", "rosette"), read[step], strict=True):
            for source in (recording, again):
                np.testing.assert_array_equal(source[step][f"{uuid}.measured"], expected, err_msg=f"{uuid} at {step}")
    rebuilt = recording.build_scene()
    assert [rebuilt.sensors[uuid].options for uuid in ("echo", "rosette")] == [ECHO, ROSETTE]
    lost = read[-1][0][1, :36] == 9.0
    assert lost.any(), "the changed threshold has an effect"


def test_observations_have_all_fields():
    options = ECHO.model_copy(update={"link": "torso", "uuid": "seen", "reflectivity": {}, "retro_reflectors": {}})
    entity = sn.TrainableEntity("balancer", [options])
    task = sn.tasks.make("balance", entity=entity, n_envs=2)
    observation, _ = task.reset()
    shapes = {name: value.shape for name, value in observation["seen"].items()}
    assert shapes == {name: (2, 2, 3, 12, 3)[: 5 if name in ("points", "normals") else 4] for name in FIELDS}
    assert observation in entity.suite.space
    (sensor,) = (each for uuid, each in task.scene.sensors.items() if uuid.endswith("seen"))
    stored, reading = entity.suite.to_disk(observation)["seen"], sensor.read()
    assert reading.intensity.any()
    for name in FIELDS:
        np.testing.assert_array_equal(stored[name], getattr(reading, name).numpy())
