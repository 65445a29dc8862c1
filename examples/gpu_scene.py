"""Step thousands of envs with their sensors on a GPU, with a different noise level in each; on the CPU without one.

python examples/gpu_scene.py --envs 4096
"""

import time
from dataclasses import dataclass, field

import torch
import tyro

import sensorium as sn


@dataclass
class Options:
    """Options of the example."""

    envs: int = 4096
    """Number of envs."""
    steps: int = 200
    """Steps to time."""
    device: str = field(default_factory=lambda: "cuda" if torch.cuda.is_available() else "cpu")
    """Device of physics and sensors."""


def main(options: Options) -> None:
    """Build the scene, randomise its sensors per env, and time its steps."""
    scene = sn.Scene(dt=0.02, substeps=4)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.1), mass=1.0), name="box", pos=(0, 0, 0.5), euler=(0.3, 0, 0), free=True)
    imu = scene.add_sensor(sn.IMU(link="box", acc_noise=0.02, gyro_noise=0.005, delay=0.02))
    height = scene.add_sensor(
        sn.Raycaster(link="box", pattern=sn.GridPattern(size=(0.4, 0.4), resolution=0.2), noise=0.01, max_range=5.0)
    )
    scene.build(n_envs=options.envs, device=options.device, seed=0)

    # one row per env; the tensor stays on the device
    imu.set(acc_noise=torch.linspace(0.0, 0.2, options.envs, device=options.device)[:, None])

    scene.step(10)
    start = time.perf_counter()
    scene.step(options.steps)
    error = (imu.read().lin_acc - imu.read_ground_truth().lin_acc).abs().mean(dim=1)  # (B,), reading waits for the GPU
    first, last = error[: options.envs // 4 + 1].mean().item(), error[-(options.envs // 4 + 1) :].mean().item()
    seconds = time.perf_counter() - start
    print(f"{options.envs * options.steps / seconds:,.0f} env steps per second on {options.device}")
    print(f"mean error of the accelerometer: {first:.3f} m/s² in the first quarter of envs, {last:.3f} in the last")
    print(f"readings: {tuple(imu.read().lin_acc.shape)}, {tuple(height.read().distances.shape)} on {options.device}")


if __name__ == "__main__":
    main(tyro.cli(Options))
