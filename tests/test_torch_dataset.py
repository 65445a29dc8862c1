"""Samples of a ``TorchDataset`` are the rows and frames of the episodes, in a reproducible order."""

from itertools import chain

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.datasets import ShuffledSampler, TorchDataset
from sensorium.generation import GenerateOptions, generate

CAMERAS = [
    {"name": "front", "resolution": (48, 32), "pos": (1.5, 0, 1.1), "lookat": (0.4, 0, 0.5), "depth": True},
    {"name": "side", "resolution": (48, 32), "pos": (0.6, 1.3, 1.0), "lookat": (0.4, 0, 0.5), "segmentation": True},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three episodes of different lengths with two cameras."""
    folder = tmp_path_factory.mktemp("torch") / "pick"
    options = {"max_steps": 30, "cameras": CAMERAS}
    generate(GenerateOptions(task="pick", policy="random", episodes=2, envs=2, options=options, seed=1), folder)
    return folder


def test_samples_are_windows_of_the_episodes(folder):
    episodes = list(sn.datasets.Dataset(folder))
    names = ["qpos", "object_poses", "front", "front_depth", "side_segmentation"]
    data = TorchDataset(folder, names, "actions/action", window=(-2, 3))
    assert len(data) == sum(len(episode) for episode in episodes)
    assert data.names[:2] == ["qpos", "object_poses.pickup_obj"]
    for index in (0, 1, 17, len(data) - 1, -1):
        number, step = data.locate(index)
        episode, sample = episodes[number], data[index]
        wanted = np.arange(step - 2, step + 3)
        at = np.clip(wanted, 0, len(episode))
        np.testing.assert_array_equal(sample["qpos"], episode["obs/agent/qpos"][at])
        np.testing.assert_array_equal(
            sample["object_poses.pickup_obj"], episode["obs/extra/object_poses/pickup_obj"][at]
        )
        np.testing.assert_array_equal(sample["front"], np.moveaxis(episode.video("front"), -1, 1)[at])
        np.testing.assert_array_equal(sample["front_depth"][:, 0], episode.video("front_depth")[at])
        np.testing.assert_array_equal(sample["side_segmentation"][:, 1], episode.video("side_segmentation")[at, ..., 1])
        np.testing.assert_array_equal(sample["qpos_is_pad"], (wanted < 0) | (wanted > len(episode)))
        acted = np.clip(wanted, 0, len(episode) - 1)
        np.testing.assert_array_equal(sample["action"], episode["actions/action"][acted])
        np.testing.assert_array_equal(sample["action_is_pad"], wanted != acted)
    assert sample["front"].dtype == torch.uint8
    with pytest.raises(IndexError, match="there is none at"):
        data[len(data)]


def test_default_is_what_a_robot_senses(folder):
    assert set(TorchDataset(folder).names) == {"qpos", "qvel", "tcp_pose", "front", "front_depth", "side"}
    assert set(TorchDataset(folder, ["*pose*", "front*"]).names) == {"tcp_pose", "front", "front_depth"}


def test_other_forms_of_actions_belong_to_their_step(folder):
    data = TorchDataset(folder, ["qpos"], "actions/joint_pos", window=(0, 2))
    episode = sn.datasets.Dataset(folder)[0]
    readings = episode.text("actions/joint_pos")
    first = data[0]["action"]
    np.testing.assert_allclose(first[1], list(chain(*readings[2].values())), rtol=1e-6)
    last = data[len(episode) - 1]  # no form is known after the end of the episode
    assert last["action_is_pad"].tolist() == [True, True]
    np.testing.assert_allclose(last["action"][0], list(chain(*readings[-2].values())), rtol=1e-6)


def test_delta_timestamps_are_seconds(folder):
    data = TorchDataset(folder, ["qpos"], delta_timestamps={"qpos": [-0.04, 0.0], "action": [0.0, 0.02, 0.1]})
    episode, sample = sn.datasets.Dataset(folder)[0], data[10]
    np.testing.assert_array_equal(sample["qpos"], episode["obs/agent/qpos"][[8, 10]])
    np.testing.assert_array_equal(sample["action"], episode["actions/action"][[10, 11, 15]])
    with pytest.raises(sn.OptionError, match=r"must be multiples of a step, 0\.02 s; got \[0\.013\]"):
        TorchDataset(folder, ["qpos"], delta_timestamps={"qpos": [0.013]})
    with pytest.raises(sn.errors.NameNotFoundError, match="there is no 'qvel'"):
        TorchDataset(folder, ["qpos"], delta_timestamps={"qvel": [0.0]})


def test_order_depends_on_seed_and_epoch_and_can_be_resumed(folder):
    data = TorchDataset(folder, ["qpos"])
    sampler = ShuffledSampler(data, seed=5)
    epochs = [list(sampler), list(sampler)]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[1]) == list(range(len(data)))
    resumed = ShuffledSampler(data, seed=5, epoch=1, start=20)
    assert len(resumed) == len(data) - 20
    assert list(resumed) == epochs[1][20:]
    assert list(ShuffledSampler(data, seed=6)) != epochs[0]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_workers_read_the_same_samples(folder):
    data = TorchDataset(folder, ["qpos", "front", "side"], window=(-1, 1))
    data[0]  # the videos of this process are open when the workers are forked
    sampler = ShuffledSampler(data, seed=2)
    loader = torch.utils.data.DataLoader(data, 8, sampler=sampler, num_workers=2)
    batches = list(loader)
    order = list(ShuffledSampler(data, seed=2))
    for key in ("qpos", "front", "side", "action"):
        read = torch.cat([batch[key] for batch in batches])
        assert torch.equal(read, torch.stack([data[index][key] for index in order])), key


def test_unknown_names_raise(folder):
    with pytest.raises(sn.errors.NameNotFoundError, match=r"has no 'qpso' \(did you mean 'qpos'"):
        TorchDataset(folder, ["qpso"])
    with pytest.raises(sn.OptionError, match="'task_info' reads text"):
        TorchDataset(folder, ["task_info"])
    with pytest.raises(sn.OptionError, match="window must be"):
        TorchDataset(folder, ["qpos"], window=(2, 2))
    for window in (3, (0.5, 2), (0, 1, 2)):
        with pytest.raises(sn.OptionError, match="window must be"):
            TorchDataset(folder, ["qpos"], window=window)
    with pytest.raises(sn.OptionError, match=r"write observations=\['qpos'\]"):
        TorchDataset(folder, "qpos")
    with pytest.raises(sn.OptionError, match=r"indexed by integers, got 1\.5"):
        TorchDataset(folder, ["qpos"])[1.5]
    with pytest.raises(sn.OptionError, match="'qpos' is an observation"):
        TorchDataset(folder, ["qpos"], actions="qpos")
