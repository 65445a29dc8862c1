"""``BufferedMLP`` and the critic's thread beside the plain network and a single thread."""

import copy
import itertools

import pytest
import torch
from torch import nn

from sensorium.training import PPOOptions, ppo_policy
from sensorium.training.buffered_mlp import BufferedMLP


def make_network(*widths):
    torch.manual_seed(0)
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ELU()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("widths", [(5, 3), (5, 16, 3), (45, 64, 32, 8, 1)])
def test_values_and_gradients_are_those_of_the_network(widths):
    network = make_network(*widths)
    buffered = BufferedMLP(network)
    for rows in (7, 40, 1, 40):  # the memory grows once, and is used in part
        inputs = torch.randn(rows, widths[0], requires_grad=True)
        gradients = []
        for call in (network, buffered):
            outputs = call(inputs)
            found = torch.autograd.grad((outputs**2).sum(), [inputs, *network.parameters()])
            gradients.append((outputs.detach(), *found))
        for expected, value in zip(*gradients, strict=True):
            torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_inputs_are_only_computed_where_they_are_asked_for():
    buffered = BufferedMLP(make_network(4, 6, 2))
    inputs = torch.randn(3, 4)
    buffered(inputs).sum().backward()
    assert inputs.grad is None
    assert buffered.linear[0].weight.grad is not None


def test_memory_of_an_inference_can_be_used_with_gradients():
    network = make_network(4, 6, 2)
    buffered, inputs = BufferedMLP(network), torch.randn(3, 4)
    with torch.inference_mode():
        values = buffered(inputs)
    assert values.is_inference()
    outputs = buffered(inputs)
    outputs.sum().backward()
    torch.testing.assert_close(outputs.detach(), network(inputs).detach())
    torch.testing.assert_close(values.clone(), outputs.detach())


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)],
        [nn.Linear(4, 4), nn.ELU(alpha=0.5), nn.Linear(4, 2)],
        [nn.Linear(4, 4), nn.ELU()],
        [nn.ELU(), nn.Linear(4, 4)],
        [],
    ],
)
def test_other_networks_are_refused(layers):
    with pytest.raises(TypeError, match="network: must be linear layers with ELUs between them"):
        BufferedMLP(nn.Sequential(*layers))


def test_the_thread_of_the_critic_does_not_change_a_bit():
    options = PPOOptions(n_envs=16, horizon=8, epochs=3, minibatches=2, hidden=(32, 16))
    env = options.make_task().as_rsl_rl()
    observation = env.get_observations()
    both = [ppo_policy.make_ppo(options, observation, env.num_actions)]
    state = copy.deepcopy(both[0].save())
    both.append(ppo_policy.make_ppo(options, observation, env.num_actions))
    both[1].load(state, None, True)
    both[1]._thread = None
    with torch.inference_mode():
        for _ in range(options.horizon):
            for one in both:
                torch.manual_seed(1)
                action = one.act(observation)
            observation, reward, dones, extras = env.step(action)
            for one in both:
                one.process_env_step(observation, reward, dones, extras)
        for one in both:
            one.compute_returns(observation)
    for one in both:
        torch.manual_seed(2)
        one.update()
    for network in ("actor", "critic"):
        pairs = zip(*(getattr(one, network).parameters() for one in both), strict=True)
        assert all(torch.equal(*pair) for pair in pairs)
    changed = [
        not torch.equal(new, state["critic_state_dict"][name]) for name, new in both[0].critic.named_parameters()
    ]
    assert all(changed)
