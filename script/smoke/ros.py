"""Extra ros: a scene is recorded as an MCAP file, and read."""

import tempfile
from pathlib import Path

import sensorium as sn

scene = sn.Scene()
scene.add_object(sn.Sphere(), name="ball", free=True)
scene.add_sensor(sn.IMU(link="ball", uuid="imu"))
scene.build()
with tempfile.TemporaryDirectory() as name:
    with sn.ros.McapRecorder(scene, Path(name) / "log") as recorder:
        for _ in range(3):
            scene.step()
            recorder.step()
    log = sn.logs.read(recorder.files[0])
    assert log["/imu"]["angular_velocity"].shape == (3, 3)
