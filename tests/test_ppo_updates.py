"""``GraphPPO`` beside rsl_rl's own PPO, and a training on a GPU."""

import gc
from functools import partial

import pytest
import torch

from sensorium.training import PPOOptions, evaluate_ppo, image_model, ppo_policy, train_ppo
from sensorium.training.image_model import _convolve

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SMALL = {"n_envs": 8, "horizon": 4, "epochs": 3, "minibatches": 2, "hidden": (16,), "episodes": 2}
SMALL |= {"task_options": {"max_steps": 6}}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("task", "task_options", "eps"),
    [
        pytest.param("walk", {}, 1e-8, id="vectors"),
        pytest.param("lift", {"camera": True}, 1e-3, id="images", marks=pytest.mark.slow),
    ],
)
def test_updates_are_those_of_rsl_rl(task, task_options, eps, device, monkeypatch):
    """On a GPU the first update runs as it is, the second is captured, and the third replays the graph.

    With images, the eps of Adam is larger than in a training: with 1e-8 its steps have equal size also where a gradient
    is nothing but rounding, so that weights which differ by 1e-5 differ by 4e-3 after one update. With 1e-3 they differ
    by 1.4e-5.
    """
    from rsl_rl.algorithms import PPO

    rtol, atol = 1e-3, 1e-4
    monkeypatch.setattr(image_model, "GPU_TYPE", torch.float32)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    task_options = {**SMALL["task_options"], **task_options}
    options = PPOOptions(device=device, learning_rate=3e-3, **{**SMALL, "task": task, "task_options": task_options})
    env = options.make_task().as_rsl_rl()
    ours, theirs = (ppo_policy.make_ppo(options, env.get_observations(), env.num_actions) for _ in range(2))
    theirs.optimizer = torch.optim.Adam([*theirs.actor.parameters(), *theirs.critic.parameters()], lr=3e-3)
    for name in ("act", "process_env_step", "update"):
        setattr(theirs, name, partial(getattr(PPO, name), theirs))
    for one in (ours, theirs):
        one.optimizer.param_groups[0]["eps"] = eps
    before = [value.detach().clone() for value in ours.actor.parameters()]
    for round_ in range(3):
        observation = env.get_observations()
        with torch.inference_mode():
            for _ in range(options.horizon):
                torch.manual_seed(round_)
                action = ours.act(observation)
                torch.manual_seed(round_)
                torch.testing.assert_close(theirs.act(observation), action, rtol=rtol, atol=5 * atol)
                theirs.transition.actions = action
                theirs.transition.actions_log_prob = theirs.actor.get_output_log_prob(action)
                observation, reward, dones, extras = env.step(action)
                for one in (ours, theirs):
                    one.process_env_step(observation, reward, dones, extras)
            for one in (ours, theirs):
                one.compute_returns(observation)
        losses = []
        for one in (ours, theirs):
            torch.manual_seed(100 + round_)
            losses.append(one.update())
        assert losses[0] == pytest.approx(losses[1], rel=rtol, abs=1e-5)
        assert ours.learning_rate == pytest.approx(theirs.learning_rate)
        assert ours.learning_rate != options.learning_rate
        for network in ("actor", "critic"):
            expected = dict(getattr(theirs, network).named_parameters())
            for name, value in getattr(ours, network).named_parameters():
                torch.testing.assert_close(value, expected[name], rtol=rtol, atol=atol, msg=f"{network} {name}")
    for old, new in zip(before, ours.actor.parameters(), strict=True):
        assert (new - old).abs().max() > 20 * atol


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kinds", [{"fused": None, "capturable": False}, {"fused": True, "capturable": True}])
def test_checkpoints_of_another_device_and_of_earlier_versions_can_be_continued(kinds, device):
    options = PPOOptions(device=device, **{**SMALL, "task": "balance"})
    env = options.make_task().as_rsl_rl()
    first, second = (ppo_policy.make_ppo(options, env.get_observations(), env.num_actions) for _ in range(2))

    def iterate(one):
        observation = env.get_observations()
        with torch.inference_mode():
            for _ in range(options.horizon):
                observation, reward, dones, extras = env.step(one.act(observation))
                one.process_env_step(observation, reward, dones, extras)
            one.compute_returns(observation)
        one.update()

    iterate(first)
    saved = first.save()
    state = saved["optimizer_state_dict"]
    for values in state["state"].values():
        values["step"] = values["step"].cpu()
    state["param_groups"][0] |= kinds
    second.load(saved, None, True)
    assert state["param_groups"][0]["capturable"] == kinds["capturable"]
    for _ in range(3):
        iterate(second)
    assert second.optimizer.param_groups[0]["fused"]
    assert second.optimizer.param_groups[0]["capturable"] == (device == "cuda")


def test_no_graph_of_a_minibatch_is_kept():
    """Otherwise a capture of the next one on a GPU finds nodes of another stream, of which torch warns."""
    options = PPOOptions(**SMALL)
    env = options.make_task().as_rsl_rl()
    observation = env.get_observations()
    algorithm = ppo_policy.make_ppo(options, observation, env.num_actions)
    with torch.inference_mode():
        for _ in range(options.horizon):
            algorithm.process_env_step(*env.step(algorithm.act(observation)))
        algorithm.compute_returns(observation)
    algorithm.update()
    gc.collect()
    kept = [each for each in gc.get_objects() if type(each) is torch.Tensor and each.grad_fn is not None]
    assert kept == []


@pytest.mark.parametrize("size", [(84, 84), (90, 91), (36, 47)])
def test_the_first_convolution_is_that_of_torch(size):
    layer = torch.nn.Conv2d(3, 32, kernel_size=8, stride=4)
    images = torch.randint(256, (5, 3, *size), dtype=torch.uint8)
    expected = layer(images.float() / 255.0)
    torch.testing.assert_close(_convolve(layer, images, torch.float32), expected, rtol=0.0, atol=1e-5)
    blurred = _convolve(layer.bfloat16(), images, torch.bfloat16)
    torch.testing.assert_close(blurred.float(), expected, rtol=0.0, atol=0.02)


@pytest.mark.gpu
def test_a_training_on_a_gpu_can_be_resumed_and_evaluated_on_the_cpu(tmp_path):
    before = torch.get_float32_matmul_precision()
    for steps in (128, 256):
        result = train_ppo(
            PPOOptions(device="cuda", steps=steps, evaluate_every=64, checkpoint_every=64, **SMALL),
            tmp_path / "walk",
            resume=steps == 256,
            tensorboard=False,
        )
        assert result.steps == steps
    assert torch.get_float32_matmul_precision() == before
    assert len(evaluate_ppo(tmp_path / "walk", 2, device="cpu").returns) == 2
