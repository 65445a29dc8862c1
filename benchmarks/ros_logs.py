"""MCAP files: messages of IMUs and megabytes of images per second, and reading them, per second of CPU time.

Run: python benchmarks/ros_logs.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import sensorium as sn
from sensorium.ros.camera_topics import camera_topics
from sensorium.ros.mcap_file import McapFile
from sensorium.ros.recorder import McapRecorder


def imu_messages(folder: Path, n_envs: int) -> tuple[float, float]:
    """Return ``sensor_msgs/Imu`` written per second of ``recorder.step()``, and messages read per second."""
    scene = sn.Scene(dt=0.02, substeps=20)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    for k in range(4):
        scene.add_sensor(sn.IMU(link="ball", uuid=f"imu{k}", rate=1000.0, acc_noise=0.1, delay=0.002))
    scene.build(n_envs=n_envs)
    spent, count = 0.0, 0
    recorder = McapRecorder(scene, folder, truth=False)
    for k in range(200):
        scene.step()
        start = time.process_time()
        recorder.step()
        spent += time.process_time() - start if k >= 20 else 0.0
        count += 4 * 20 * n_envs if k >= 20 else 0  # Imu alone; as many MagneticField are written
    start = time.process_time()
    recorder.close()
    spent += time.process_time() - start
    start = time.process_time()
    log = sn.logs.read(recorder.files[0])
    messages = sum(map(len, log.values()))
    return count / spent, messages / (time.process_time() - start)


def image_bytes(folder: Path, compression: str) -> float:
    """Return bytes of 640 x 480 images written per second: encoding, compression and file."""
    scene = sn.Scene()
    scene.add_object(sn.Plane())
    camera = scene.add_sensor(
        sn.Camera(uuid="eye", pos=(0, 0, 2), lookat=(1, 0, 0), resolution=(640, 480), renderer="batch")
    )
    scene.build()
    topics = camera_topics(camera, 0)
    image = camera.read().rgb.numpy(force=True).copy()
    image += np.random.default_rng(0).integers(0, 8, image.shape, dtype=np.uint8)  # noise, as a real camera has it
    file = McapFile(folder / f"{compression}.mcap", compression, 1 << 22)  # type: ignore[arg-type]
    for topic in topics:
        file.add_topic(topic.name, topic.message)
    start, count = time.process_time(), 200
    for k in range(count):
        stamp = np.array([k * 10**8])
        for topic in topics:
            file.write_all([(k, k, topic.name, topic.encode({"rgb": image}, stamp)[0].tobytes())])
    file.close()
    return count * image.nbytes / (time.process_time() - start)


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n_envs in (1, 16):
            wrote, read = imu_messages(folder / f"imu{n_envs}", n_envs)
            print(f"IMU messages, {n_envs:2d} envs: {wrote:9,.0f}/s written (at least 25,000), {read:9,.0f}/s read")
        for compression in ("zstd", "lz4", "none"):
            rate = image_bytes(folder, compression)
            print(f"images, {compression:4}: {rate / 1e6:6,.0f} MB/s (at least 200 for zstd)")


if __name__ == "__main__":
    main()
