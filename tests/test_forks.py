"""A scene with threads raises in a forked process instead of waiting forever; calls that fail change nothing."""

import os

import pytest

import sensorium as sn


def boxes(n_envs, threads):
    scene = sn.Scene()
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5), free=True)
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.build(n_envs=n_envs, threads=threads)
    return scene, imu


def in_child(call):
    """Return what a call raises in a forked process, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            call()
            os.write(writing, b"done")
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_scenes_with_threads_raise_after_a_fork():
    scene, _ = boxes(4, 2)
    text = in_child(scene.step)
    assert text.startswith("DeviceError: the scene was made before this process was forked")
    assert "spawn" in text
    assert in_child(scene.reset).startswith("DeviceError")
    scene.step()  # the parent goes on
    alone, _ = boxes(4, 1)
    assert in_child(alone.step) == "done"


@pytest.mark.parametrize("value", ["x", None, 1.5, -1, True, 2**70])
def test_step_counts_that_are_refused_change_nothing(value):
    scene, imu = boxes(2, 1)
    scene.step()
    with pytest.raises(sn.OptionError, match="step_count must be an integer"):
        scene.step_count = value
    assert scene.step_count == 1
    scene.step()
    assert imu.read().lin_acc.isfinite().all()
    scene.step_count = 7
    assert scene.step_count == 7


def test_sensor_steps_that_are_refused_change_nothing():
    task = sn.tasks.make("pick", n_envs=1)
    with pytest.raises(sn.OptionError, match="step must be an integer"):
        task.set_sensor_step("a")
    task.reset()
    task.step(task.robot.neutral_action() if hasattr(task.robot, "neutral_action") else [[0.0] * task.robot.n_actions])
    task.close()
