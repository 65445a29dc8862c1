"""Record a scene without images, then replay it with a camera and a lidar that were not there.

python examples/record_replay.py --out out/record_replay
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

import sensorium as sn


@dataclass
class Options:
    """Options of the example."""

    out: Path = Path("out/record_replay")
    """Folder of the recording and its replay; what is there is replaced."""
    steps: int = 100
    """Steps to record."""
    envs: int = 2
    """Number of envs."""


def main(options: Options) -> None:
    """Record, check, replay with other sensors, and show that the recorded sensors read the same bits again."""
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.5), euler=(0.3, 0.2, 0), free=True)
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.1, gyro_random_walk=0.01, delay=0.02))
    scene.build(n_envs=options.envs, seed=7)
    with sn.recording.Recorder(scene, options.out / "drop", overwrite=True) as recorder:
        for _ in range(options.steps):
            scene.step()
            recorder.step()
    print(sn.recording.check(options.out / "drop"))

    added = (
        sn.Camera(uuid="room", pos=(1.0, -1.0, 0.8), lookat=(0, 0, 0.1), resolution=(160, 120)),
        sn.Lidar(link="box", uuid="lidar", pattern=sn.SphericalPattern(fov=(360, 0), n_points=(90, 1)), max_range=5.0),
    )
    replay = sn.recording.replay(
        options.out / "drop",
        options.out / "seen",
        sn.recording.ReplayOptions(sensors=added, images=("rgb",), interval=10),
        overwrite=True,
    )
    print(replay)

    recording = sn.recording.Recording(options.out / "drop")
    again = recording.build_scene()
    recording.seek(again, len(recording) - 1)
    replayed = again.sensors["imu"]
    assert isinstance(replayed, sn.sensors.IMUSensor)
    same = all(torch.equal(one, other) for one, other in zip(imu.read(), replayed.read(), strict=True))
    print(f"the IMU reads the same bits at the last step: {same}")


if __name__ == "__main__":
    main(tyro.cli(Options))
