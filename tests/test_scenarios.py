"""Scenarios: robots reach their goals without collisions, in the same way in a batch of any size."""

import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import textwrap
import time

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium import robots, scenarios
from sensorium.scenarios import OccupancyMap, Room

BARE = robots.SensorRig()


def stage(robot="diffdrive", n_envs=1, room=0, **options):
    """Return a scene with a robot in a room, and the robot."""
    scene = sn.Scene()
    scene.add_module("room", Room(seed=room))
    robot = scene.add_robot(robot, name="robot", **{"rig": BARE, **options})
    scene.build(n_envs=n_envs)
    return scene, robot


def bumps(scene, env):
    """Return whether the robot of an env touches anything but the floor."""
    model, data = scene.model, mujoco.MjData(scene.model)
    state = scene.get_state()[env].numpy()
    mujoco.mj_setState(model, data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_forward(model, data)
    for contact in data.contact:
        touching = [model.body(int(model.geom_bodyid[geom])).name for geom in contact.geom]
        if any(name.startswith("robot/") for name in touching) and "room/floor" not in touching:
            return True
    return False


# -- random paths -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "seed"), [("diffdrive", 0), ("diffdrive", 1), ("holonomic", 3)])
def test_five_goals_are_reached_without_a_collision(robot, seed):
    scene, robot = stage(robot, n_envs=3, room=seed)
    scenario = scenarios.make("random-path", scene, robot, seed=seed, goals=5)
    wide = scenario.map.dilated(robot.radius)
    goals = [set() for _ in range(3)]
    finished = np.zeros(3, bool)
    for step in range(12_000):
        done = scenario.step().numpy()
        scene.step()
        position = robot.get_pose()[0][:, :2].numpy()
        assert wide.is_free(position).all(), step
        for env in range(3):
            goals[env].add(tuple(scenario.goal.value[env].tolist()))
        if step % 50 == 0:
            assert not any(bumps(scene, env) for env in range(3)), step
        arrived = done & ~finished
        if arrived.any():
            for env in np.flatnonzero(arrived):  # it is at its goal
                assert min(np.hypot(*(np.array(goal) - position[env])) for goal in goals[env]) < 0.25
        finished |= done
        if finished.all():
            break
    assert finished.all()
    assert all(len(each) >= 5 for each in goals)
    assert goals[0] != goals[1]
    assert float(scenario.backing.value.max()) == 0.0  # no robot was stuck


def test_the_robot_stays_on_its_path_and_in_free_cells():
    scene, robot = stage(n_envs=2, room=5)
    scenario = scenarios.make("random-path", scene, robot, seed=1)
    scenario.step()
    for env in range(2):
        corners = int(scenario.corners.value[env])
        path = scenario.path.value[env, :corners].numpy()
        assert corners >= 2
        assert path[0] == pytest.approx(robot.get_pose()[0][env, :2].numpy(), abs=1e-6)
        assert path[-1] == pytest.approx(scenario.goal.value[env].numpy())
        assert scenario.planner.room.is_free(path).all()
        assert np.hypot(*(path[-1] - path[0])) >= 1.5


def test_a_path_with_too_many_corners_is_driven_in_parts(monkeypatch):
    monkeypatch.setattr("sensorium.scenarios.random_path._MAX_CORNERS", 2)
    scene, robot = stage(room=5)
    scenario = scenarios.make("random-path", scene, robot, seed=1, goals=3)
    parts, goals = set(), set()
    for _ in range(9000):
        done = bool(scenario.step())
        parts.add(tuple(scenario.path.value[0].flatten().tolist()))
        goals.add(tuple(scenario.goal.value[0].tolist()))
        scene.step()
        if done:
            break
    assert done
    assert scenario.path.value.shape == (1, 2, 2)
    assert len(parts) > len(goals) == 4  # the third was reached, and a fourth chosen


def test_a_stuck_robot_backs_up_and_chooses_another_goal():
    scene = sn.Scene()
    scene.add_module("room", Room(obstacles=0))
    scene.add_object(sn.Box(size=(0.02, 1.2, 0.5), mass=200), name="gate", pos=(1.0, 0, 0.25), free=True)
    robot = scene.add_robot("diffdrive", name="robot", rig=BARE)
    scene.build()
    scene["gate"].set_pose(pos=(0, 3, 0.25))  # its position in the map
    scene.forward()
    scenario = scenarios.make("random-path", scene, robot, seed=0, random_start=False)
    scenario.step()
    ahead = scenario.goal.value[0].numpy() / np.linalg.norm(scenario.goal.value[0].numpy())
    turn = np.arctan2(ahead[1], ahead[0]) / 2
    scene["gate"].set_pose(pos=(*(0.6 * ahead), 0.25), quat=(np.cos(turn), 0, 0, np.sin(turn)))
    first, backed, after = scenario.goal.value[0].clone(), False, None
    for _ in range(1500):
        scenario.step()
        scene.step()
        backed |= float(scenario.backing.value[0]) > 0
        if backed and not torch.equal(scenario.goal.value[0], first):
            after = robot.get_pose()[0][0, :2].numpy()
            break
    assert backed
    assert after is not None
    assert int(scenario.reached.value[0]) == 0  # being stuck does not count as arrival
    assert after @ ahead < 0.2  # it has left the gate


def test_driving_depends_on_env_and_seed_but_not_on_the_batch_size():
    tracks = {}
    for n_envs, seed in ((3, 0), (1, 0), (1, 1)):
        scene, robot = stage(n_envs=n_envs)
        scenario = scenarios.make("random-path", scene, robot, seed=seed)
        for _ in range(600):
            scenario.step()
            scene.step()
        tracks[n_envs, seed] = scene.get_state()[0], scenario.path.value[0].clone()
    for several, one in zip(tracks[3, 0], tracks[1, 0], strict=True):
        assert torch.equal(several, one)
    assert not torch.equal(tracks[1, 0][0], tracks[1, 1][0])


def test_a_reset_of_one_env_does_not_change_the_others():
    ends = []
    for resets in (False, True):
        scene, robot = stage(n_envs=3)
        scenario = scenarios.make("random-path", scene, robot, seed=0)
        for step in range(300):
            scenario.step()
            scene.step()
            if resets and step == 150:
                start = scenario.goal.value[1].clone()
                scene.reset([1])
                scenario.reset([1])
                assert float(robot.action.value[1].abs().max()) == 0.0
                scenario.step()
                assert not torch.equal(scenario.goal.value[1], start)
                scene.step()
            elif step == 150:
                scenario.step()
                scene.step()
        ends.append(scene.get_state())
    assert torch.equal(ends[0][[0, 2]], ends[1][[0, 2]])
    assert not torch.equal(ends[0][1], ends[1][1])


@pytest.mark.parametrize("name", ["random-path", "random-acceleration"])
def test_a_scenario_continues_from_its_state_dict(name):
    scene, robot = stage(n_envs=2)
    scenario = scenarios.make(name, scene, robot, seed=0)

    def drive(steps):
        for _ in range(steps):
            scenario.step()
            scene.step()
        return scene.get_state()

    drive(200)
    scenario.update_state()
    saved = {key: value.clone() for key, value in scenario.state_dict().items()}
    end = drive(400)
    other_scene, other_robot = stage(n_envs=2)
    scenario, scene = scenarios.make(name, other_scene, other_robot, seed=0), other_scene
    scenario.load_state_dict(saved)
    scenario.write_replay_data()
    again = drive(400)
    assert torch.allclose(again, end, atol=1e-9)


def test_a_scenario_is_the_root_of_its_tree():
    scene, robot = stage(n_envs=2, rig="diffdrive")
    scenario = scenarios.make("random-path", scene, robot, seed=0)
    own = set(scenario.state_dict(include_tags=["scenario"]))
    assert {"goal"} <= own
    for registered in (False, True):
        if registered:
            scene.add_child("scenario", scenario)
            assert {f"scenario.{name}" for name in own} <= set(scene.state_dict())
            assert len(scene.state_dict()) == len(scenario.state_dict())
        names = [name for name, _ in scenario.named_buffers()]
        assert {"robot.position", "scene.physics", *own} <= set(names)
        assert "scene.robot.position" not in names  # listed once
        scenario.step()
        scene.step(20)
        robot.position.value.zero_()
        scenario.update_state()
        assert torch.equal(robot.position.value, robot.get_pose()[0])
        images = scenario.state_dict(include_tags=["rgb"])
        assert set(images) == {"robot.rig.front_left.rgb", "robot.rig.front_right.rgb"}
        assert torch.equal(images["robot.rig.front_left.rgb"], robot.rig["front_left"].read().rgb)
        assert "robot.rig.front_left.ground_truth_rgb" in scenario.state_dict(include_tags=["ground_truth"])
        scenario.disable_depth_rendering()
        assert scenario.state_dict(include_tags=["depth"]) == {}
        scenario.enable_depth_rendering()
        robot.position.value[:, 0] += 0.25
        scenario.write_replay_data()
        assert torch.equal(robot.get_pose()[0], robot.position.value)
    scenario.update_state()
    saved = {name: value.clone() for name, value in scenario.state_dict(exclude_tags=["rgb", "depth"]).items()}
    scene.step(10)
    scenario.load_state_dict(saved)
    scenario.write_replay_data()
    assert torch.equal(scene.get_state(), saved["scene.physics"])


def test_a_map_file_replaces_the_map_of_the_scene(tmp_path):
    scene, robot = stage()
    cells = np.full((60, 60), 100)
    cells[10:50, 10:50] = 0
    OccupancyMap(cells, 0.1, (-3, -3, 0)).save(tmp_path)
    scenario = scenarios.make("random-path", scene, robot, map=str(tmp_path), min_distance=0.0)
    assert scenario.map.shape == (60, 60)
    for _ in range(20):
        scenario.reset()
        scenario.step()
        assert float(scenario.goal.value.abs().max()) < 2.0 - robot.radius
    assert json.loads(scenario.options.model_dump_json())["map"] == str(tmp_path)


def test_start_poses_are_random():
    scene, robot = stage(n_envs=64)
    scenario = scenarios.make("random-path", scene, robot, seed=0)
    position, quat = robot.get_pose()
    assert position[:, :2].std(dim=0).min() > 1.0
    assert len(set(map(tuple, position.tolist()))) > 60
    yaw = 2 * torch.atan2(quat[:, 3], quat[:, 0])
    assert abs(float(torch.cos(yaw).mean())) < 0.35
    assert not any(bumps(scene, env) for env in range(0, 64, 7))
    assert scenario.planner.room.is_free(position[:, :2].numpy()).all()


# -- random acceleration ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", ["diffdrive", "holonomic"])
def test_random_acceleration_is_smooth_and_reaches_the_limits(robot):
    scene = sn.Scene()
    scene.add_terrain(sn.Plane())
    robot = scene.add_robot(robot, name="robot", rig=BARE)
    scene.build(n_envs=4)
    scenario = scenarios.make("random-acceleration", scene, robot, seed=0)
    commands = []
    for _ in range(3000):
        assert not bool(scenario.step().any())
        scene.step()
        commands.append(robot.action.value.clone())
    commands = torch.stack(commands).double()
    limits = robot.action_limits.double()
    assert bool((commands <= limits[:, 1] + 1e-6).all())
    assert bool((commands >= limits[:, 0] - 1e-6).all())
    assert bool((commands.amax(dim=(0, 1)) > 0.8 * limits[:, 1]).all())
    assert bool((commands.amin(dim=(0, 1)) < 0.8 * limits[:, 0]).all())
    change = commands.diff(dim=0).abs().amax(dim=(0, 1)) / scene.dt
    assert bool((change <= limits[:, 1] / 1.5 + 1e-3).all())
    assert not torch.equal(commands[:, 0], commands[:, 1])


def test_random_acceleration_depends_on_seed_and_env_only():
    ends = {}
    for n_envs, seed in ((5, 0), (2, 0), (2, 1)):
        scene, robot = stage(n_envs=n_envs)
        scenario = scenarios.make("random-acceleration", scene, robot, seed=seed)
        for _ in range(500):
            scenario.step()
            scene.step()
        ends[n_envs, seed] = scene.get_state()[:2]
    assert torch.equal(ends[5, 0], ends[2, 0])
    assert not torch.equal(ends[2, 0], ends[2, 1])


def test_a_blocked_robot_reverses():
    scene = sn.Scene()
    scene.add_module("room", Room(obstacles=0, size=(3.0, 3.0), clear=0.5))
    robot = scene.add_robot("diffdrive", name="robot", rig=BARE)
    scene.build(n_envs=8)
    scenario = scenarios.make("random-acceleration", scene, robot, seed=0)
    pressing = torch.zeros(8)
    for _ in range(1500):
        scenario.step()
        scene.step()
        slow = robot.get_velocity()[0][:, :2].norm(dim=1) < 0.2 * robot.action.value[:, 0].abs()
        pressing = torch.where(slow & (robot.action.value[:, 0].abs() > 0.15), pressing + scene.dt, 0.0)
        assert float(pressing.max()) < 2.5
    position = robot.get_pose()[0]
    assert float(position[:, :2].abs().max()) < 1.5


def test_a_robot_that_has_fallen_is_done():
    scene, robot = stage(n_envs=2)
    scenario = scenarios.make("random-acceleration", scene, robot)
    assert not bool(scenario.step().any())
    scene["robot"]._entity.set_pose(pos=(0, 0, 0.4), quat=(0, 1, 0, 0), envs=[1])
    scene.forward()
    assert scenario.step().tolist() == [False, True]


# -- teleoperation ----------------------------------------------------------------------------------------------------

DRIVE = textwrap.dedent(
    """
    import sys
    import sensorium as sn
    from sensorium import robots, scenarios
    scene = sn.Scene(dt=0.02)
    scene.add_terrain(sn.Plane())
    robot = scene.add_robot(sys.argv[1], name="robot", rig=robots.SensorRig())
    scene.build(n_envs=2)
    with scenarios.make("keyboard", scene, robot, real_time=sys.argv[2] == "real") as scenario:
        print("READY", flush=True)
        while not bool(scenario.step().all()):
            scene.step()
            print("ACTION", *robot.action.value[1].tolist(), flush=True)
    print("END", *robot.get_pose()[0][0].tolist(), flush=True)
    """
)


class Terminal:
    """A program in a pseudo-terminal, with simulated key presses."""

    def __init__(self, *arguments):
        self.master, slave = pty.openpty()
        self.attributes = termios.tcgetattr(slave)
        self.slave = slave
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVE, *arguments], stdin=slave, stdout=subprocess.PIPE, text=True, env=environment
        )

    def type(self, keys):
        """Press keys."""
        os.write(self.master, keys)

    def line(self, start, until=lambda line: True, seconds=60):
        """Return the next line with this start that fulfils a condition."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.process.stdout], [], [], end - time.monotonic())[0]:
                line = self.process.stdout.readline()
                if not line:
                    break
                if line.startswith(start) and until([float(part) for part in line.split()[1:]]):
                    return [float(part) for part in line.split()[1:]]
        raise AssertionError(f"no line {start!r} came")

    def close(self):
        """Stop the program if it still runs."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal():
    opened = []

    def open_terminal(*arguments):
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


@pytest.mark.slow
def test_keys_drive_the_robot(terminal):
    program = terminal("holonomic", "real")
    program.line("READY")
    program.type(b"ww")
    program.line("ACTION", lambda action: action == pytest.approx([0.4, 0.0, 0.0]))
    program.type(b"\x1b[D")  # the left arrow
    program.line("ACTION", lambda action: action == pytest.approx([0.4, 0.0, 0.4]))
    program.type(b"\x1b")  # the right arrow, byte by byte
    program.type(b"[")
    program.type(b"CDz")
    program.line("ACTION", lambda action: action == pytest.approx([0.4, 0.2, -0.4]))
    program.type(b" ")
    program.line("ACTION", lambda action: action == pytest.approx([0.0, 0.0, 0.0]))
    program.type(b"S" * 30)
    program.line("ACTION", lambda action: action == pytest.approx([-1.0, 0.0, 0.0]))
    program.type(b"q")
    program.line("END")
    assert program.process.wait(timeout=20) == 0
    assert termios.tcgetattr(program.slave) == program.attributes


@pytest.mark.slow
def test_keys_are_not_echoed_and_an_interrupt_restores_the_terminal(terminal):
    program = terminal("diffdrive", "real")
    program.line("READY")
    assert not termios.tcgetattr(program.slave)[3] & termios.ECHO
    started = time.monotonic()
    first = program.line("ACTION")
    for _ in range(50):
        program.line("ACTION")
    assert time.monotonic() - started > 0.9  # 50 steps of 0.02 s in real time
    assert first == [0.0, 0.0]
    program.process.send_signal(2)
    program.process.wait(timeout=20)
    assert termios.tcgetattr(program.slave) == program.attributes


def test_the_keyboard_needs_a_terminal(monkeypatch):
    scene, robot = stage()
    with open(os.devnull) as null:
        monkeypatch.setattr(sys, "stdin", null)
        with pytest.raises(sn.DeviceError, match="keyboard needs a terminal"):
            scenarios.make("keyboard", scene, robot)


def test_a_gamepad_drives_the_robot(tmp_path):
    device = tmp_path / "js0"
    os.mkfifo(device)
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    pad = os.open(device, os.O_WRONLY | os.O_NONBLOCK)
    scene, robot = stage("holonomic", n_envs=2)
    with scenarios.make("gamepad", scene, robot, device=str(device), real_time=False) as scenario:

        def press(kind, number, value):
            os.write(pad, struct.pack("=IhBB", 0, value, kind, number))

        def drive(steps=100):
            for _ in range(steps):
                done = scenario.step()
                scene.step()
            return robot.action.value[1].tolist(), bool(done.all())

        press(0x82, 1, 0)  # the kernel reports the initial position of a stick
        assert drive(1) == ([0.0, 0.0, 0.0], False)
        press(2, 1, -32767)  # fully up
        assert drive()[0] == pytest.approx([1.0, 0.0, 0.0])
        press(2, 1, -2000)  # almost released
        press(2, 3, 32767)
        press(2, 0, -32767)
        assert drive()[0] == pytest.approx([0.0, 1.0, -2.0])
        press(2, 0, 18022)  # half of the range beyond the dead zone
        press(2, 3, 0)
        assert drive()[0] == pytest.approx([0.0, -0.5, 0.0], abs=1e-3)
        event = struct.pack("=IhBB", 0, 1, 1, 1)
        os.write(pad, event[:3])  # half an event
        assert not drive(1)[1]
        os.write(pad, event[3:])
        assert drive()[1]
        assert robot.action.value[0].tolist() == [0.0, 0.0, 0.0]
    os.close(pad)
    os.close(reader)


def test_a_missing_gamepad_raises(tmp_path):
    scene, robot = stage()
    with pytest.raises(sn.DeviceError, match="plug one in"):
        scenarios.make("gamepad", scene, robot, device=str(tmp_path / "js0"))
    (tmp_path / "file").write_text("")
    with pytest.raises(sn.DeviceError, match="not a gamepad"):
        scenarios.make("gamepad", scene, robot, device=str(tmp_path / "file"))


# -- errors -----------------------------------------------------------------------------------------------------------


def test_invalid_arguments_raise():
    scene, robot = stage()
    assert scenarios.names() == ["random-acceleration", "random-path", "keyboard", "gamepad"]
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'random-path'"):
        scenarios.make("random-pat", scene, robot)
    with pytest.raises(sn.OptionError, match="did you mean 'speed'"):
        scenarios.make("random-path", scene, robot, sped=1.0)
    with pytest.raises(sn.OptionError, match="seed"):
        scenarios.make("random-path", scene, robot, seed=-1)
    with pytest.raises(sn.OptionError, match="robot must be SceneRobot, got"):
        scenarios.make("random-path", scene, scene["room"])
    with pytest.raises(sn.OptionError, match="not in this scene"):
        scenarios.make("random-path", scene, robots.make("diffdrive", rig=BARE))
    with pytest.raises(sn.OptionError, match="there is no map file"):
        scenarios.make("random-path", scene, robot, map="nowhere")
    unbuilt = sn.Scene()
    lonely = unbuilt.add_robot("diffdrive", name="robot", rig=BARE)
    with pytest.raises(sn.NotBuiltError, match=r"call scene\.build"):
        scenarios.make("random-path", unbuilt, lonely)


def test_robots_without_forward_and_turn_work_with_random_acceleration_only():
    model = """<mujoco><worldbody><body name="base"><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1"/></body>
      </worldbody><actuator><motor name="push" joint="x" ctrlrange="-1 1"/></actuator></mujoco>"""
    scene, robot = stage(model)
    with pytest.raises(sn.OptionError, match="needs the actions forward, turn"):
        scenarios.make("random-path", scene, robot)
    scenario = scenarios.make("random-acceleration", scene, robot)
    for _ in range(100):
        scenario.step()
        scene.step()
    assert abs(float(robot.action.value[0, 0])) > 0.01
