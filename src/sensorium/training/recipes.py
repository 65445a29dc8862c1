"""How tasks are trained unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sensorium.errors import NameNotFoundError, did_you_mean, shorten
from sensorium.robots import RigSensor, SensorMount, SensorRig
from sensorium.training.options import EntityOptions, TrainOptions


def balance() -> TrainOptions:
    """A balancing robot, from its IMU and the encoders of its wheels, as they come: not calibrated, with the offsets
    that data sheets allow. All that it reads is 20 ms old; it gets the last 4 readings."""
    late = {"delay": 0.02, "history_length": 4}
    imu = {
        "rate": 200.0,
        "acc_noise": 0.05,
        "acc_bias": [0.5, -0.3, 0.4],  # 50 mg, as data sheets of MEMS sensors allow
        "acc_bias_spread": 0.05,
        "gyro_noise": 0.01,
        "gyro_bias": [0.05, 0.087, -0.05],  # 5 °/s, likewise
        "gyro_bias_spread": 0.005,
        "mag_noise": 5e-7,
        **late,
    }
    encoder = {"joints": [0, 1], "noise": 0.002, "vel_noise": 0.03, **late}
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
    """An arm that is told joint speeds, from its encoders, and from a tracker of its hand and of the target."""
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
"""Task -> what makes its options."""


def recipe(task: str, **changes: Any) -> TrainOptions:
    """The options with which a task is trained, some of them changed. Of the same brain, ``brain_options`` that are not
    given stay as they are.

    Raises:
        NameNotFoundError: there is none for that task; make ``TrainOptions`` of your own.

    Example:
        >>> recipe("balance", steps=20_000, seed=3)
    """
    if task not in RECIPES:
        hint = did_you_mean(task, RECIPES) or f"; there are {shorten(RECIPES)}"
        raise NameNotFoundError(f"there is no recipe to train {task!r}{hint}; or give TrainOptions of your own")
    made = RECIPES[task]()
    if "brain_options" in changes and "brain" not in changes:
        changes["brain_options"] = made.brain_options | changes["brain_options"]
    return TrainOptions(**{**{name: getattr(made, name) for name in TrainOptions.model_fields}, **changes})
