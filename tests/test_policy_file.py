"""Policy files: the ONNX network acts as the trained one, and the contract describes what it observes and does."""

import dataclasses
import json
import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from deploy_messages import feed_arrived, feed_now

import sensorium as sn
from sensorium.cli import main
from sensorium.deploy import Contract, Policy, read_contract, run_log
from sensorium.deploy.onnx_file import join, split
from sensorium.training import PPOOptions, export_policy, load_brain, load_policy, recipe, train, train_ppo
from sensorium.training.options import TrainOptions
from sensorium.training.policy_networks import sac_graph
from sensorium.training.policy_terms import TermMaker, _noise

pytest.importorskip("onnx", reason="onnx is not installed: pip install 'sensorium[train]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'sensorium[deploy]'")

KEYS = ("scale", "offset", "min", "max")
GOLDEN = Path(__file__).parent / "data" / "balance_contract.json"
PPO = {"n_envs": 4, "horizon": 4, "epochs": 1, "minibatches": 1, "episodes": 2, "steps": 16}


@pytest.fixture(scope="module")
def balance(tmp_path_factory):
    """Return the folder of a short training by SAC."""
    folder = tmp_path_factory.mktemp("runs") / "balance"
    options = {"n_envs": 4, "steps": 64, "warmup": 32, "episodes": 2, "evaluate_every": 64, "checkpoint_every": 64}
    train(recipe("balance", task_options={"max_steps": 40}, **options), folder, tensorboard=False)
    return folder


def train_walk(folder, **options):
    """Train a few steps of walk by PPO; return the folder."""
    values = {**PPO, "hidden": (16,), **options}
    values["task_options"] = {"max_steps": 30, **values.get("task_options", {})}
    train_ppo(PPOOptions(**values), folder, tensorboard=False)
    return folder


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """Return the folder of a short training by PPO, with three frames of observations."""
    options = {"history": 3, "randomize_sensors": {"imu.gyro_noise": (0.0, 0.1), "joints.delay": (0.02, 0.04)}}
    return train_walk(tmp_path_factory.mktemp("runs") / "walk", task_options=options)


def session(path):
    """Return the network of a policy file."""
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def draw(contract, count=1000):
    """Return random readings by term, (count, history, size), 3 times as wide as those that were seen."""
    rng = np.random.default_rng(0)
    found = {}
    for term in contract.observations:
        mean, std = np.array(term.seen.mean), np.array(term.seen.std)
        noise = rng.standard_normal((count, term.history, term.size))
        found[term.name] = (mean + (3 * std + 0.01) * noise).astype(np.float32)
    return found


def concatenated(readings):
    return np.concatenate([each.reshape(len(each), -1) for each in readings.values()], axis=1)


# -- networks ----------------------------------------------------------------------------------------------------------


def test_training_writes_the_file(balance, walk):
    for folder in (balance, walk):
        contract = read_contract(folder / "policy.onnx")
        assert Contract.from_json((folder / "policy.json").read_text()) == contract
        assert contract.which == "best"


def test_onnx_and_torch_agree_for_sac(balance):
    contract = read_contract(balance / "policy.onnx")
    readings = draw(contract)
    readings["imu.mag"][7, 0, 1] = np.nan  # which the network takes as the mean
    readings["imu.lin_acc"][8, 1, 0] = np.inf
    nested = {}
    for name, value in readings.items():
        sensor, _, part = name.partition(".")
        nested.setdefault(sensor, {})[part] = value.copy()
    wanted = load_brain(balance).decide_batch(nested, deterministic=True)
    action, command = session(balance / "policy.onnx").run(
        ["action", "command"], {"observation": concatenated(readings)}
    )
    np.testing.assert_allclose(action, wanted, atol=1e-5, rtol=0)
    np.testing.assert_allclose(command, 0.5 * wanted, atol=1e-5, rtol=0)  # the gear of the motors, N m


def ppo_actions(folder, readings, frames=1):
    """Return the actions of the trained network for readings by term, one row after the other."""
    options = PPOOptions.load(folder)
    task = options.make_task(1, device="cpu")
    actor = load_policy(folder, task)
    order = [np.concatenate([each[:, frame] for each in readings.values()], axis=1) for frame in range(frames)]
    matrix = torch.from_numpy(np.concatenate(order, axis=1))
    observation = task.as_tensordict()
    rows = []
    with torch.inference_mode():
        for row in matrix:
            observation["actor"] = row[None]
            rows.append(actor(observation)[0].numpy())
    task.close()
    return np.array(rows)


def test_onnx_and_torch_agree_for_ppo_with_frames(walk):
    contract = read_contract(walk / "policy.onnx")
    assert {term.history for term in contract.observations} == {3}
    readings = draw(contract)
    wanted = ppo_actions(walk, readings, frames=3)
    action, command = session(walk / "policy.onnx").run(["action", "command"], {"observation": concatenated(readings)})
    np.testing.assert_allclose(action, wanted, atol=1e-5, rtol=1e-5)
    (term,) = contract.actions
    targets = np.clip(np.array(term.offset) + np.array(term.scale) * wanted, term.min, term.max)
    np.testing.assert_allclose(command, targets, atol=1e-5, rtol=0)


@pytest.mark.parametrize("network", ["gru", "lstm"])
def test_onnx_and_torch_agree_for_recurrent_networks(network, tmp_path):
    folder = train_walk(tmp_path / "walk", network=network, memory=8)
    contract = read_contract(folder / "policy.onnx")
    assert contract.state == (8 if network == "gru" else 16)
    readings = draw(contract, 50)
    wanted = ppo_actions(folder, readings)
    run, state = session(folder / "policy.onnx"), np.zeros((1, contract.state), np.float32)
    for row, target in zip(concatenated(readings), wanted, strict=True):
        action, state = run.run(["action", "next_state"], {"observation": row[None], "state": state})
        np.testing.assert_allclose(action[0], target, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_onnx_and_torch_agree_for_images(tmp_path):
    values = {**PPO, "hidden": (16,), "n_envs": 2, "task": "lift", "task_options": {"camera": True, "max_steps": 6}}
    folder = tmp_path / "lift"
    train_ppo(PPOOptions(**values), folder, tensorboard=False)
    contract = read_contract(folder / "policy.onnx")
    (image,) = (term for term in contract.observations if term.conversion == "image")
    assert (image.input, image.shape, image.dtype) == ("image_front", (84, 84, 3), "uint8")
    task = PPOOptions.load(folder).make_task(2)
    task.reset()
    observation = task.as_tensordict()
    observation["image_front"] = torch.randint(0, 255, (2, 3, 84, 84), dtype=torch.uint8)
    with torch.inference_mode():
        wanted = load_policy(folder, task)(observation).numpy()
    inputs = {"observation": observation["actor"].numpy()}
    inputs["image_front"] = observation["image_front"].movedim(1, -1).contiguous().numpy()
    (action,) = session(folder / "policy.onnx").run(["action"], inputs)
    np.testing.assert_allclose(action, wanted, atol=1e-5, rtol=1e-5)
    assert [term.kind for term in contract.actions] == ["joint_velocity", "gripper_velocity"]
    task.close()
    assert main(["export-policy", str(folder), "--out", str(tmp_path / "lift.onnx")]) == 0
    _run_images(folder, tmp_path)


def _run_images(folder, tmp_path):
    """Run an image policy over messages of the recorder, and compare with the network on the same readings."""
    options = PPOOptions.load(folder)
    task = options.make_task(1)
    task.reset()
    with sn.ros.McapRecorder(task.scene, tmp_path / "log") as recorder:
        for _ in range(30):
            task.scene.step()
            recorder.step()
    policy = Policy.load(tmp_path / "lift.onnx")
    log = sn.logs.read(recorder.files[0])
    given = dict.fromkeys(policy.command_names, (0.1, 0.2, 0.3))
    run = run_log(policy, log.messages(policy.topics), given)
    assert len(run.times) > 10
    assert not run.refused
    (image,) = (term for term in policy.contract.observations if term.conversion == "image")
    shown = log[image.topic]
    newest = np.searchsorted(shown.arrival, run.times[-1] + 1e-6) - 1
    pixels = np.asarray(shown["data"][newest]).reshape(image.shape)
    assert np.ptp(pixels) > 50
    observation = task.as_tensordict()
    observation["actor"] = torch.from_numpy(run.observations[-1:])
    observation["image_front"] = torch.from_numpy(pixels.copy()).movedim(-1, 0)[None]
    with torch.inference_mode():
        action = load_policy(folder, task)(observation).numpy()[0]
    scale, offset = (np.concatenate([getattr(each, key) for each in policy.contract.actions]) for key in KEYS[:2])
    low, high = (
        np.array([bound if each is None else each for term in policy.contract.actions for each in getattr(term, key)])
        for key, bound in zip(KEYS[2:], (-np.inf, np.inf), strict=True)
    )
    np.testing.assert_allclose(run.commands[-1], np.clip(offset + scale * action, low, high), atol=1e-5)
    task.close()


def test_onnx_and_torch_agree_for_sac_with_images(balance, tmp_path):
    """Colour and depth images go through CNNs, and the actor is blind to what is privileged."""
    box = gymnasium.spaces.Box
    space = gymnasium.spaces.Dict(
        camera=gymnasium.spaces.Dict(rgb=box(0, 255, (36, 40, 3), np.uint8), depth=box(0, 9, (36, 36), np.float32)),
        imu=box(-1, 1, (5,), np.float32),
        **{"privileged/pose": box(-1, 1, (2,), np.float32)},
    )
    brain = sn.SACMLPBrain(space, box(-2.0, 1.0, (2,), np.float32), hidden=(16,), seed=3)
    known = read_contract(balance / "policy.onnx")
    term = dataclasses.replace(known.observations[0], shape=(5,), noise=(0.0,) * 5, history=1, ages=(0.0,), seen=None)
    contract = dataclasses.replace(known, observations=(term,))
    path = tmp_path / "images.onnx"
    rng = np.random.default_rng(0)
    imu = rng.normal(size=(20, 5)).astype(np.float32)
    rgb = rng.integers(0, 256, (20, 36, 40, 3), dtype=np.uint8)
    depth = rng.uniform(0, 9, (20, 36, 36)).astype(np.float32)
    depth[0, 0, :3] = np.nan, np.inf, -np.inf
    brain.observe({"camera": {"rgb": rgb, "depth": depth}, "imu": imu, "privileged/pose": np.zeros((20, 2))})
    path.write_bytes(sac_graph(brain, contract).to_bytes())
    wanted = brain.decide_batch({"camera": {"rgb": rgb, "depth": depth}, "imu": imu.copy()}, deterministic=True)
    inputs = {"observation": imu, "camera.rgb": rgb, "camera.depth": depth}
    (action,) = session(path).run(["action"], inputs)
    np.testing.assert_allclose(action, wanted, atol=1e-5, rtol=0)


# -- closed loop -------------------------------------------------------------------------------------------------------


def test_deploy_acts_as_the_policy_in_its_task_for_sac(balance):
    """200 decisions over several episodes: the observation vector and the actions are those of the task."""
    options, brain = TrainOptions.load(balance), load_brain(balance)
    entity = options.entity.make(lambda *spaces: brain)
    task = options.make_task(entity, 1, 5)
    policy, decisions = Policy.load(balance / "policy.onnx"), 0
    names = [term.name for term in policy.contract.observations]
    while decisions < 200:
        observation, _ = task.reset()
        policy.reset()
        time = 0.0
        feed_now(policy, task.robot.rig, time)
        while not task.is_done().all():
            command = policy.act(time)
            flat = {f"{key}.{part}": value for key, each in observation.items() for part, value in each.items()}
            seen = np.concatenate([flat[name].reshape(-1) for name in names])
            np.testing.assert_allclose(policy._vector[0], seen, rtol=1e-6, atol=1e-9, err_msg=f"at {time} s")
            action = brain.decide_batch(observation, deterministic=True)
            np.testing.assert_allclose(command, 0.5 * action[0], atol=1e-5)
            observation, *_ = task.step(2.0 * command[None])
            time += task.config.dt
            feed_arrived(policy, task.robot.rig)
            decisions += 1
    task.close()


def test_deploy_acts_as_the_policy_in_its_task_for_ppo(walk):
    """Commands, the last action and three frames of sensors with delays, over episodes."""
    task = PPOOptions.load(walk).make_task(1, 5)
    task.autoreset = False
    actor, policy, decisions = load_policy(walk, task), Policy.load(walk / "policy.onnx"), 0
    contract = policy.contract
    assert policy.command_names == ["command"]
    while decisions < 200:
        task.reset()
        policy.reset()
        time = 0.0
        feed_now(policy, task.robot.rig, time)
        while not bool(task.terminated | task.truncated) or time == 0.0:
            policy.act(time, {"command": task.observation()["command"][0].numpy()})
            frames = task.groups()["actor"].numpy().reshape(3, -1)
            parts = np.split(frames, np.cumsum([term.size for term in contract.observations])[:-1], axis=1)
            seen = np.concatenate([part.reshape(-1) for part in parts])
            np.testing.assert_allclose(policy._vector[0], seen, rtol=1e-6, atol=1e-9, err_msg=f"at {time} s")
            with torch.inference_mode():
                action = actor(task.as_tensordict())
            np.testing.assert_allclose(policy._action, action[0].numpy(), atol=1e-5)
            task.step(policy._action[None].copy())
            time += task.config.dt
            feed_arrived(policy, task.robot.rig)
            decisions += 1
    task.close()


def test_a_log_of_the_recorder_is_run_as_the_robot_would(balance, tmp_path):
    """Decisions over an MCAP file, read back, are those over the samples themselves."""
    options = TrainOptions.load(balance)
    task = options.make_task(options.entity.make(lambda *spaces: load_brain(balance)), 1, 5)
    task.reset()
    live = Policy.load(balance / "policy.onnx")
    times, vectors, commands = [], [], []
    with sn.ros.McapRecorder(task.scene, tmp_path) as recorder:
        for _ in range(60):
            task.scene.step()
            recorder.step()
            feed_arrived(live, task.robot.rig)
            now = float(task.scene.world.time[0])
            if live.is_ready:
                commands.append(live.act(now))
                times.append(now)
                vectors.append(live._vector[0].copy())
    task.close()
    log = sn.logs.read(recorder.files[0])
    policy = Policy.load(balance / "policy.onnx")
    run = run_log(policy, log.messages(policy.topics))
    assert not run.refused
    shared = [(i, j) for i, t in enumerate(times) for j in np.flatnonzero(np.abs(run.times - t) < 1e-6)]
    assert len(shared) > 40
    mine, theirs = (list(each) for each in zip(*shared, strict=True))
    settled = 4  # what was before the first sample of a topic depends on when the policy started
    np.testing.assert_allclose(run.observations[theirs][settled:], np.array(vectors)[mine][settled:], atol=1e-6)
    np.testing.assert_allclose(run.commands[theirs][settled:], np.array(commands)[mine][settled:], atol=1e-5)


def test_a_training_on_a_gpu_is_exported_without_one(walk, tmp_path):
    """Only the option differs: the folder says cuda, and this machine has none."""
    folder = tmp_path / "walk"
    shutil.copytree(walk, folder)
    config = json.loads((folder / "config.json").read_text())
    config["device"] = "cuda"
    (folder / "config.json").write_text(json.dumps(config))
    assert PPOOptions.load(folder).device == "cuda"
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert main(["export-policy", str(folder), "--out", str(tmp_path / "policy.onnx")]) == 0
    contract, before = read_contract(tmp_path / "policy.onnx"), read_contract(walk / "policy.onnx")
    assert [term.name for term in contract.observations] == [term.name for term in before.observations]
    readings = concatenated(draw(before, 20))
    (own,), (wanted,) = (
        session(path).run(["action"], {"observation": readings})
        for path in (tmp_path / "policy.onnx", walk / "policy.onnx")
    )
    np.testing.assert_array_equal(own, wanted)


# -- contracts ---------------------------------------------------------------------------------------------------------


def test_contract_of_balance_is_as_in_the_golden_file(balance):
    """The whole contract except versions, hash and figures of episodes."""
    values = json.loads((balance / "policy.json").read_text())
    for key in ("versions", "hash"):
        del values[key]
    for term in values["observations"]:
        assert {"uuid", "unit", "frame", "rate"} <= term.keys()
        seen = term.pop("seen")
        assert seen["samples"] == 2048
        assert np.all(np.array(seen["min"]) <= seen["mean"])
        assert np.all(np.array(seen["mean"]) <= seen["max"])
    assert values == json.loads(GOLDEN.read_text())


def test_contract_of_walk(walk):
    contract = read_contract(walk / "policy.onnx")
    terms = {term.name: term for term in contract.observations}
    assert list(terms) == ["imu.ang_vel", "attitude", "joints.positions", "joints.velocities", "command", "last_action"]
    assert terms["last_action"].source == "previous_action"
    assert terms["command"].source == "command"
    assert terms["command"].names == ("forward", "left", "turn")
    assert terms["command"].unit == ("m/s", "m/s", "rad/s")
    assert terms["joints.positions"].latency.max == pytest.approx(0.055)
    assert terms["joints.positions"].imperfections["randomized"] == {"delay": [0.02, 0.04]}
    assert terms["joints.positions"].ages == (0.0, 0.02, 0.04)
    assert "topic" not in json.loads((walk / "policy.json").read_text())["observations"][-1]
    (action,) = contract.actions
    assert (action.kind, action.unit, len(action.names)) == ("joint_position", "rad", 12)
    assert action.names == terms["joints.positions"].names
    assert action.scale == pytest.approx((0.24, 0.24, 0.36) * 4)  # 40% of 24 and 36 N m at 40 N m/rad
    task = sn.tasks.make("walk")
    np.testing.assert_allclose(action.default_pose, task._home_q)
    task.close()


def test_contract_of_an_arm_names_its_joints(tmp_path):
    options = {"n_envs": 2, "steps": 8, "warmup": 4, "episodes": 1, "evaluate_every": 8, "checkpoint_every": 8}
    train(recipe("reach", task_options={"max_steps": 4}, **options), tmp_path / "run", tensorboard=False)
    contract = export_policy(tmp_path / "run", tmp_path / "out" / "reach.onnx", which="last")
    assert contract.which == "last"
    arm = contract.actions[0]
    assert (arm.kind, arm.unit) == ("joint_velocity", "rad/s")
    assert arm.names == tuple(f"joint{number}" for number in range(1, 8))
    assert arm.default_pose is not None
    terms = {term.name: term for term in contract.observations}
    assert terms["joints.positions"].names == arm.names
    assert terms["hand.quat"].conversion == "quaternion"
    assert terms["hand.pos"].noise == (0.002,) * 3
    assert terms["hand.pos"].frame.endswith("link0")
    Policy.load(tmp_path / "out" / "reach.onnx")


def test_command_line_writes_both_files(balance, tmp_path, capsys):
    out = tmp_path / "my.onnx"
    assert main(["export-policy", str(balance), "--out", str(out)]) == 0
    assert "imu.lin_acc" in capsys.readouterr().out
    assert read_contract(out) == read_contract(balance / "policy.onnx")
    assert json.loads((tmp_path / "my.json").read_text())["observations"]
    assert main(["export-policy", str(balance), "--out", str(tmp_path / "my.pt")]) == 2
    assert "must end in '.onnx'" in capsys.readouterr().err
    assert main(["export-policy", str(tmp_path / "nothing")]) == 1
    assert "holds no training" in capsys.readouterr().err


def test_changed_files_are_refused(balance, tmp_path):
    data = (balance / "policy.onnx").read_bytes()
    network, metadata = split(data)
    assert join(network, metadata) == data
    path = tmp_path / "policy.onnx"

    def refused(content, message):
        path.write_bytes(content)
        with pytest.raises(sn.DatasetError, match=message):
            Policy.load(path)

    weights = bytearray(network)
    weights[len(weights) // 2] ^= 1
    refused(join(bytes(weights), metadata), "hash")
    (text,) = metadata.values()
    refused(join(network, {"sensorium_contract": text.replace('"rate": 200.0', '"rate": 100.0')}), "hash")
    refused(join(network, {"sensorium_contract": text.replace('"version": 1', '"version": 2')}), "version 2")
    refused(network, "has no contract")
    refused(data[:-10], "is not an ONNX file")
    refused(b"no model", "is not an ONNX file")
    with pytest.raises(sn.DatasetError, match="cannot read"):
        Policy.load(tmp_path / "none.onnx")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("unit", 3, r"observations\[0\] \(imu.ang_vel\)\.unit must be a list, got 3"),
        ("rate", "fast", r"observations\[0\] \(imu.ang_vel\)\.rate must be a finite number, got 'fast'"),
        ("rate", 0.0, r"\(imu.ang_vel\)\.rate: must be > 0, got 0.0"),
        ("shape", [4], r"\(imu.ang_vel\)\.noise: must have 4 numbers"),
        ("ages", [0.0], r"\(imu.ang_vel\)\.ages: must have 4 numbers"),
        ("source", "oracle", r"\.source must be one of sensor, command, previous_action, got 'oracle'"),
        ("topik", "/imu", r"\(imu.ang_vel\): there is no key 'topik' \(did you mean 'topic'"),
        ("name", "imu.lin_acc", "each term must have a name of its own"),
        ("frame", None, r"\.frame must be text, got None"),
    ],
)
def test_bad_contracts_are_refused_by_term_and_key(key, value, message, balance):
    values = json.loads((balance / "policy.json").read_text())
    values["observations"][0][key] = value
    with pytest.raises(sn.DatasetError, match=message):
        Contract.from_json(json.dumps(values))
    del values["observations"][0][key]
    if key in ("unit", "rate", "shape", "frame", "name"):
        with pytest.raises(sn.DatasetError, match=f"the key '{key}' is missing"):
            Contract.from_json(json.dumps(values))


def test_contracts_survive_json(balance):
    contract = read_contract(balance / "policy.onnx")
    assert Contract.from_json(contract.to_json()) == contract
    assert dataclasses.replace(contract, seed=1).compute_hash(b"") != contract.compute_hash(b"")


@pytest.mark.parametrize("order", [1, 2])
def test_assumed_noise_is_what_the_filter_passes(order):
    """A density before a filter counts with the noise bandwidth of its order, per axis."""
    scene = sn.Scene(dt=1e-3, substeps=1)
    scene.add_object(sn.Box(size=(1, 1, 1), mass=1.0), name="box")
    density, bandwidth = (0.01, 0.02, 0.03), 10.0
    imu = scene.add_sensor(
        sn.IMU(link="box", gyro_noise_density=density, gyro_bandwidth=bandwidth, filter_order=order, acc_noise=0.1)
    )
    scene.build()
    equivalent = bandwidth * {1: np.pi / 2, 2: np.pi / (2 * np.sqrt(2))}[order]
    np.testing.assert_allclose(_noise(imu, "ang_vel", (3,)), np.array(density) * np.sqrt(equivalent), rtol=0.03)
    assert _noise(imu, "lin_acc", (3,)) == (0.1,) * 3


def test_frames_and_mounting_poses_of_terms(tmp_path):
    """Joints have no frame in space; angles of a mounting pose become a quaternion."""
    mount = "{link: torso, pos: [0.1, 0, 0], euler: [0, 0, 1.5707963267948966]}"
    (tmp_path / "rig.yaml").write_text(
        f"sensors:\n  - {{name: imu, type: IMU, mount: {mount}}}\n  - {{name: wheels, type: JointEncoder}}\n"
    )
    scene = sn.Scene(dt=0.01)
    robot = scene.add_robot(sn.robots.make("balancer", rig=tmp_path / "rig.yaml"), name="robot")
    scene.build()
    maker = TermMaker(robot, scene.dt)
    assert maker.sensor("wheels", "positions").frame == "joint"
    term = maker.sensor("imu", "ang_vel")
    assert (term.frame, term.link) == ("robot_imu", "torso")
    assert term.pos == (0.1, 0.0, 0.0)
    np.testing.assert_allclose(term.quat, [np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
