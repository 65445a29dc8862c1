"""Tensor tasks on the GPU world: the episodes of the CPU, random actions, and no waiting for the device. Needs CUDA."""

import warnings

import pytest
import torch

import sensorium as sn

pytestmark = pytest.mark.gpu

TIMING = {"joints.delay": (0.015, 0.08), "attitude.rate": (5.0, 50.0), "imu.dropout": (0.0, 0.5)}
TASKS = {
    "balance": {},
    "reach": {},
    "lift": {},
    "walk rough": {"terrain": "rough", "ground": {"size": 12.0}},
    "walk late": {"randomize_sensors": TIMING},
}
"""Names of the tests -> options of the task; the task is the part of the name before a blank."""


def make(name, device, n_envs=8, **options):
    task = sn.tasks.make(name.split()[0], n_envs=n_envs, device=device, **{"seed": 3, **TASKS[name], **options})
    task.reset()
    return task


def flat(observation):
    """Return "uuid/part" -> tensor on the CPU."""
    found = {}
    for uuid, value in observation.items():
        parts = {f"{uuid}/{part}": each for part, each in value.items()} if isinstance(value, dict) else {uuid: value}
        found |= {name: each.cpu() for name, each in parts.items()}
    return found


@pytest.mark.parametrize("name", TASKS)
def test_episodes_begin_as_on_the_cpu(name):
    cpu, gpu = (make(name, device, max_steps=3) for device in ("cpu", "cuda"))
    for episode in range(3):
        for field in ("qpos", "qvel", "mocap_pos"):
            one, other = (task.scene.world.bind(field).cpu().float() for task in (cpu, gpu))
            torch.testing.assert_close(other, one, rtol=0, atol=1e-5, msg=f"{field} of episode {episode}")
        truth = [
            {k: v for k, v in flat(task.observation()).items() if k.startswith("privileged/")} for task in (cpu, gpu)
        ]
        assert truth[0].keys() == truth[1].keys()
        for key, value in truth[0].items():
            if "lin_acc" not in key:  # forces of contacts differ between the engines
                torch.testing.assert_close(truth[1][key], value, rtol=0, atol=2e-3, msg=key)
        for task in (cpu, gpu):  # captured from the second step on
            for _ in range(3):
                task.step(torch.zeros(8, *task.single_action_space.shape, device=task.device))
        assert gpu.episode.tolist() == cpu.episode.tolist()


def test_room_for_contacts_can_be_set():
    tasks = [make("balance", device, n_envs=2, nconmax=11, njmax=33) for device in ("cpu", "cpu:0", "cuda")]
    world = tasks[2].scene.world
    assert (world.nconmax, world.njmax) == (11, 33)
    assert make("balance", "cuda", n_envs=2).scene.world.njmax != 33


@pytest.mark.parametrize("name", TASKS)
def test_random_actions(name):
    task = make(name, "cuda", max_steps=20)
    torch.manual_seed(0)
    low, high = (
        torch.from_numpy(each).to(task.device) for each in (task.single_action_space.low, task.single_action_space.high)
    )
    low, high = low.clamp(min=-1.0), high.clamp(max=1.0)
    for _ in range(50):
        action = low + (high - low) * torch.rand(8, len(low), device=task.device)
        observation, reward, terminated, truncated, _ = task.step(action)
        assert all(value.device == task.device for value in (reward, terminated, truncated))
    assert torch.isfinite(reward).all()
    assert all(torch.isfinite(value).all() for value in flat(observation).values())
    assert (task.episode >= 2).all()
    means = task.log.take()
    assert means["episodes"] >= 16
    assert means["ended/diverged"] == 0


@pytest.mark.parametrize("name", TASKS)
def test_steps_do_not_wait_for_the_device(name):
    task = make(name, "cuda", n_envs=64, max_steps=5)
    action = torch.zeros(64, *task.single_action_space.shape, device=task.device)
    for _ in range(3):
        task.step_in_place(action)
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings(action="ignore"):  # torch says that it does not see every kind of waiting
            torch.cuda.set_sync_debug_mode("error")
        for _ in range(10):  # over the ends of episodes
            task.step_in_place(action)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (task.episode >= 2).all()


def test_drawn_delays_rates_and_dropouts_act_as_on_the_cpu():
    cpu, gpu = (make("walk late", device, max_steps=15) for device in ("cpu", "cuda"))
    for step in range(35):  # over the ends of episodes
        for task in (cpu, gpu):
            task.step(torch.zeros(8, 12, device=task.device))
        for uuid in ("joints", "attitude", "imu"):
            ages = [task.robot.rig[uuid].age().cpu() for task in (cpu, gpu)]
            torch.testing.assert_close(ages[1], ages[0], rtol=0, atol=1e-6, msg=f"{uuid} after step {step}")


def test_images_are_drawn_on_the_device():
    task = sn.tasks.make("lift", n_envs=4, device="cuda", camera=True, max_steps=4)
    task.reset()
    for _ in range(6):
        task.step_in_place(torch.zeros(4, 8, device=task.device))
        observation = task.as_tensordict()
    images = observation["image_front"]
    assert images.shape == (4, 3, 84, 84)
    assert images.device == task.device
    assert images.dtype == torch.uint8
    assert images.float().std() > 10
    assert not torch.equal(images[0], images[1])
