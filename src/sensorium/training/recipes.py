"""Recipes: the default training options of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sensorium._arguments import checked
from sensorium.errors import NameNotFoundError, did_you_mean, shorten
from sensorium.robots import RigSensor, SensorMount, SensorRig
from sensorium.training.options import EntityOptions, TrainOptions


def balance() -> TrainOptions:
    """Return the options of a balancing robot with an IMU and wheel encoders.

    The IMU is not calibrated: it has biases that are typical of data sheets. All readings have a delay of 20 ms, and
    the brain gets the last 4 of them.
    """
    timing = {"delay": 0.02, "history_length": 4}
    imu = {
        "rate": 200.0,
        "acc_noise": 0.05,
        "acc_bias": [0.5, -0.3, 0.4],  # 50 mg, within the data sheets of MEMS sensors
        "acc_bias_spread": 0.05,
        "gyro_noise": 0.01,
        "gyro_bias": [0.05, 0.087, -0.05],  # 5 °/s, also within them
        "gyro_bias_spread": 0.005,
        "mag_noise": 5e-7,
        **timing,
    }
    encoder = {"joints": [0, 1], "noise": 0.002, "vel_noise": 0.03, **timing}
    sensors = (
        RigSensor(name="imu", type="IMU", mount=SensorMount(link="torso"), options=imu),
        RigSensor(name="wheels", type="JointEncoder", options=encoder),
    )
    return TrainOptions(
        task="balance",
        entity=EntityOptions(robot="balancer", sensors=SensorRig(sensors=sensors)),
        brain_options={
            "hidden": [128, 128],
            "layer_norm": True,
            "learning_rate": 1e-3,
            "tau": 0.02,
            "target_entropy": -4.0,
        },
        gradient_steps=4,
        steps=180_000,
        evaluate_every=10_000,
        checkpoint_every=20_000,
        stop_at=0.96,
    )


def reach() -> TrainOptions:
    """Return the options of an arm with joint velocity control, joint encoders and trackers of its hand and target."""
    tracker = {"pos_noise": 0.002, "delay": 0.04, "relative_to": "link0"}
    sensors = (
        RigSensor(
            name="joints",
            type="JointEncoder",
            options={"joints": [f"joint{number}" for number in range(1, 8)], "noise": 0.001, "vel_noise": 0.01},
        ),
        RigSensor(name="hand", type="FramePose", options={"link": "tcp", **tracker}),
        RigSensor(name="target", type="FramePose", options={"link": "target", **tracker}),
    )
    return TrainOptions(
        task="reach",
        entity=EntityOptions(
            robot="franka",
            robot_options={"controllers": {"arm": "joint_velocity"}},
            sensors=SensorRig(sensors=sensors),
            landmarks=("target",),
        ),
        brain_options={"hidden": [128, 128], "learning_rate": 1e-3, "gamma": 0.95},
        steps=60_000,
        evaluate_every=6_000,
        checkpoint_every=12_000,
    )


RECIPES: dict[str, Callable[[], TrainOptions]] = {"balance": balance, "reach": reach}
"""Task -> function that returns its default options."""


@checked
def recipe(task: str, **changes: Any) -> TrainOptions:
    """Return the default options of a task's training, with changes.

    Args:
        task: name of the task.
        **changes: options of :class:`TrainOptions`. ``brain_options`` are merged with the defaults, unless ``brain``
            changes too.

    Raises:
        NameNotFoundError: there is no recipe for the task; make ``TrainOptions`` instead.
        OptionError: an option is unknown or cannot be used.

    Example:
        >>> recipe("balance", steps=20_000, seed=3)
    """
    if task not in RECIPES:
        hint = did_you_mean(task, RECIPES) or f"; there are {shorten(RECIPES)}"
        raise NameNotFoundError(
            f"there is no recipe to train {task!r} by SAC{hint}; add one to sensorium.training.RECIPES, or make "
            "TrainOptions. PPO trains tensor tasks without one"
        )
    default = RECIPES[task]()
    if "brain_options" in changes and "brain" not in changes:
        changes["brain_options"] = default.brain_options | changes["brain_options"]
    return TrainOptions(**{**{name: getattr(default, name) for name in TrainOptions.model_fields}, **changes})
