"""Cases of ``fit_scenes``: every imperfection and every kind of sensor that is fitted, with its true values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from fit_scenes import FIELD, GRAVITY, Case, rest, simulate, swing
from scipy.spatial.transform import Rotation

import sensorium as sn
from sensorium.fit.replay import replay_pose

AXES = ((1.01, 0.004, -0.003), (0.002, 0.99, 0.006), (-0.005, 0.003, 1.005))
IRON = ((1.02, 0.03, -0.01), (0.01, 0.97, 0.02), (-0.02, 0.01, 1.01))
GYRO_BIAS, ACC_BIAS, HARD = (0.01, -0.02, 0.005), (0.1, -0.05, 0.08), (2e-6, -3e-6, 1e-6)
DT = 0.01

Twins = Iterator[sn.fit.Twin]


def one(values: dict[str, np.ndarray], env: int) -> dict[str, np.ndarray]:
    """Return the fields of one env, (samples, axes)."""
    return {name: array[:, env].reshape(len(array), -1) for name, array in values.items()}


def imu_logs(options: sn.IMU, samples: int, runs: int, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield logs of IMUs at rest."""
    ((_, readings, _),) = simulate({"imu": options}, rest(samples, DT), runs, seed)
    for env in range(runs):
        found = one(readings, env)
        yield {"time": DT * np.arange(samples), "gyro": found["ang_vel"], "acc": found["lin_acc"], "mag": found["mag"]}


def imu_at_rest(runs: int, seed: int) -> Twins:
    """Fit IMUs at rest: densities, step, random walk, Gauss-Markov drift, filter, outliers."""
    options = sn.IMU(
        link="body/base",
        uuid="imu",
        gyro_noise_density=2e-4,
        gyro_bias=GYRO_BIAS,
        gyro_resolution=1e-3,
        gyro_random_walk=6e-5,
        acc_noise_density=2e-3,
        acc_drift=4e-3,
        acc_drift_time=6.0,
        mag_noise_density=5e-8,
        mag_bandwidth=12.0,
        mag_outliers=0.004,
        mag_outlier_size=4e-6,
    )
    for log in imu_logs(options, 20000, runs, seed):
        yield sn.fit.imu(log)


def quiet_imu(runs: int, seed: int) -> Twins:
    """Fit IMUs at rest whose noise is small against the step, with a bias instability, and with lost samples."""
    options = sn.IMU(
        link="body/base",
        uuid="imu",
        dropout=0.03,
        gyro_noise_density=4e-5,
        gyro_resolution=1e-3,
        gyro_bias=GYRO_BIAS,
        acc_noise_density=2e-3,
        acc_bias_instability=1e-3,
        acc_drift_time=12.0,
    )
    for log in imu_logs(options, 20000, runs, seed):
        yield sn.fit.imu({name: log[name] for name in ("time", "gyro", "acc")})


def power_ups(runs: int, seed: int) -> Twins:
    """Fit sets of 10 logs, one per power-up."""
    options = sn.IMU(link="body/base", uuid="imu", gyro_noise_density=2e-4, gyro_bias=GYRO_BIAS, gyro_bias_spread=4e-3)
    logs = list(imu_logs(options, 1500, 10 * runs, seed))
    for k in range(runs):
        yield sn.fit.imu([{"time": log["time"], "gyro": log["gyro"]} for log in logs[10 * k : 10 * k + 10]])


def imu_in_motion(runs: int, seed: int) -> Twins:
    """Fit IMUs in motion against poses with noise, whose clock is 13.7 ms ahead."""
    motion = swing(6000, DT, still=8.0)
    exact = sn.fit.PoseReference(motion.time, motion.quat, motion.pos)
    time = motion.time[100:-100]
    options = sn.IMU(
        link="body/base",
        gyro_noise_density=2e-4,
        gyro_bias=GYRO_BIAS,
        gyro_misalignment=AXES,
        acc_noise_density=2e-3,
        acc_bias=ACC_BIAS,
        acc_misalignment=AXES,
        mag_noise_density=1.2e-7,
        mag_bias=HARD,
        mag_misalignment=IRON,
    )
    rng = np.random.default_rng(seed)
    for run in range(runs):
        read = replay_pose(options, exact, time, gravity=GRAVITY, field=FIELD, seed=1000 * seed + run)
        tilt = Rotation.from_rotvec(3e-4 * rng.standard_normal((len(motion.time), 3)))
        turn = Rotation.from_quat(np.roll(motion.quat, -1, axis=1)) * tilt
        pose = {
            "time": motion.time,
            "quat": np.roll(turn.as_quat(), 1, axis=1),
            "pos": motion.pos + 2e-4 * rng.standard_normal(motion.pos.shape),
        }
        log = {"time": time + 0.0137, **{name: read[name] for name in ("gyro", "acc", "mag")}}
        yield sn.fit.imu(log, reference=pose, gravity=GRAVITY, field=float(np.linalg.norm(FIELD)))


def stamps(runs: int, seed: int) -> Twins:
    """Fit time stamps with jitter and gaps."""
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        time = np.arange(6000) / 99.3 + rng.uniform(0, 0.004, 6000)
        kept = rng.uniform(size=6000) > 0.02
        kept[[0, -1]] = True
        yield sn.fit.channel({"time": time[kept], "value": rng.standard_normal((kept.sum(), 1))})


def encoders(runs: int, seed: int) -> Twins:
    """Fit joint encoders against the true trajectory."""
    options = sn.JointEncoder(
        robot="body", uuid="e", resolution=2e-3, noise=3e-3, bias=0.05, scale_error=0.01, delay=0.03, vel_noise=0.02
    )
    motion = swing(6000, DT, still=8.0)
    ((_, readings, truth),) = simulate({"encoder": options}, motion, runs, seed)
    for env in range(runs):
        found, exact = one(readings, env), one(truth, env)
        log = {"time": motion.time, "joint_pos": found["positions"], "joint_vel": found["velocities"]}
        yield sn.fit.joint_encoder(log, reference=exact["positions"])


def filtered_channel(runs: int, seed: int) -> Twins:
    """Fit a channel with a low-pass response, a dead band and limits."""
    options = sn.JointEncoder(
        robot="body", uuid="e", noise=1e-3, bandwidth=6.0, deadband=0.03, saturation=(-0.7, 0.6), delay=0.02
    )
    motion = swing(6000, DT, fast=2.0)
    ((_, readings, truth),) = simulate({"encoder": options}, motion, runs, seed)
    for env in range(runs):
        found, exact = one(readings, env)["positions"], one(truth, env)["positions"]
        yield sn.fit.channel({"time": motion.time, "angle": found}, reference=exact, unit="rad")


def force_torques(runs: int, seed: int) -> Twins:
    """Fit force/torque sensors against the true loads."""
    options = sn.ForceTorque(
        link="body/tool",
        uuid="ft",
        force_noise=0.02,
        force_bias=(0.5, -0.3, 0.2),
        force_scale_error=0.02,
        torque_noise=1e-3,
        torque_drift=2e-3,
        torque_drift_time=2.0,
    )
    motion = swing(6000, DT, still=8.0)
    ((_, readings, truth),) = simulate({"ft": options}, motion, runs, seed)
    for env in range(runs):
        yield sn.fit.force_torque(
            {"time": motion.time, **one(readings, env)}, reference={"time": motion.time, **one(truth, env)}
        )


def distances(runs: int, seed: int) -> Twins:
    """Fit a range sensor above the ground against the true distances."""
    options = sn.Raycaster(
        link="body/base",
        uuid="r",
        pattern=sn.ArrayPattern(directions=((0.0, 0.0, -1.0), (0.3, 0.0, -1.0), (0.6, 0.0, -1.0))),
        noise=0.01,
        noise_per_metre=0.006,
        bias=0.02,
        scale_error=0.004,
        ray_dropout=0.01,
        outliers=0.002,
        outlier_size=0.5,
        no_hit=float("inf"),
        exclude_self=True,
        returns=("distances",),
    )
    motion = swing(3000, DT)
    motion = type(motion)(
        motion.pos * [1, 1, 1.0] + [0, 0, 1.0] + 2 * np.linspace(0, 1, 3000)[:, None] * [0, 0, 1],
        np.tile([1.0, 0, 0, 0], (3000, 1)),
        motion.angle,
        DT,
    )
    ((_, readings, truth),) = simulate({"ray": options}, motion, runs, seed)
    for env in range(runs):
        log = {"time": motion.time, "distance": one(readings, env)["distances"]}
        yield sn.fit.distance(log, reference=one(truth, env)["distances"])


def receivers(runs: int, seed: int) -> Twins:
    """Fit satellite receivers at rest."""
    options = sn.GPS(
        link="body/base",
        uuid="gps",
        origin=(47.0, 8.0, 400.0),
        noise=0.2,
        horizontal_error=1.5,
        vertical_error=2.5,
        error_time_constant=15.0,
        loss_rate=0.02,
        reacquire_time=3.0,
    )
    motion = rest(4000, 0.2)
    ((_, readings, _),) = simulate({"gps": options}, motion, runs, seed)
    for env in range(runs):
        yield sn.fit.gps({"time": motion.time, **one(readings, env)})


def barometers(runs: int, seed: int) -> Twins:
    """Fit barometers at rest against the true pressure."""
    options = sn.Barometer(link="body/base", uuid="b", noise_density=0.3, random_walk=0.06, resolution=0.5, bias=40.0)
    motion = rest(8000, 0.02)
    ((_, readings, truth),) = simulate({"b": options}, motion, runs, seed)
    for env in range(runs):
        log = {"time": motion.time, "pressure": one(readings, env)["pressure"]}
        yield sn.fit.barometer(log, reference=float(one(truth, env)["pressure"][0, 0]))


def _cases() -> dict[str, Case]:
    def case(name: str, run: Any, **truth: Any) -> Case:
        return Case(name, run, {key.replace("__", "."): value for key, value in truth.items()})

    found = [
        case(
            "imu at rest",
            imu_at_rest,
            gyro__noise_density=2e-4,
            gyro__bias=GYRO_BIAS,
            gyro__resolution=1e-3,
            gyro__random_walk=6e-5,
            acc__noise_density=2e-3,
            acc__drift=4e-3,
            acc__drift_time=6.0,
            mag__noise_density=5e-8,
            mag__bandwidth=12.0,
            mag__outliers=0.004,
            mag__outlier_size=4e-6,
        ),
        case(
            "quiet imu",
            quiet_imu,
            gyro__noise_density=4e-5,
            gyro__bias=GYRO_BIAS,
            gyro__resolution=1e-3,
            acc__bias_instability=1e-3,
            acc__drift_time=12.0,
            dropout=0.03,
        ),
        case("power-ups", power_ups, gyro__bias_spread=4e-3, gyro__bias=GYRO_BIAS, gyro__noise_density=2e-4),
        case(
            "imu in motion",
            imu_in_motion,
            gyro__bias=GYRO_BIAS,
            gyro__bias_in_motion=GYRO_BIAS,
            gyro__misalignment=AXES,
            gyro__delay=0.0137,
            acc__bias=ACC_BIAS,
            acc__misalignment=AXES,
            acc__delay=0.0137,
            mag__bias=HARD,
            mag__misalignment=IRON,
            mag__delay=0.0137,
        ),
        case("time stamps", stamps, rate=99.3, jitter=0.004, lost_stamps=0.02),
        case(
            "joint encoder",
            encoders,
            resolution=2e-3,
            noise_density=3e-3 * np.sqrt(2 * DT),
            bias=0.05,
            scale_error=0.01,
            delay=0.03,
            vel__noise_density=0.02 * np.sqrt(2 * DT),
        ),
        case(
            "filtered channel",
            filtered_channel,
            bandwidth=6.0,
            noise=1e-3,
            deadband=0.03,
            saturation=(-0.7, 0.6),
            delay=0.02,
        ),
        case(
            "force/torque",
            force_torques,
            force__noise_density=0.02 * np.sqrt(2 * DT),
            force__bias=(0.5, -0.3, 0.2),
            force__scale_error=0.02,
            torque__noise_density=1e-3 * np.sqrt(2 * DT),
            torque__drift=2e-3,
            torque__drift_time=2.0,
        ),
        case(
            "distance",
            distances,
            noise=0.01,
            noise_per_metre=0.006,
            bias=0.02,
            scale_error=0.004,
            ray_dropout=0.01,
            outliers=0.002,
            outlier_size=0.5,
        ),
        case(
            "gps",
            receivers,
            noise_density=0.2 * np.sqrt(0.4),
            horizontal_error=1.5,
            vertical_error=2.5,
            error_time_constant=15.0,
            loss_rate=0.02,
            reacquire_time=3.0,
        ),
        case("barometer", barometers, noise_density=0.3, random_walk=0.06, resolution=0.5, bias=40.0),
    ]
    return {one.name: one for one in found}


CASES = _cases()
