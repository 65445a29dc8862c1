"""``camera.attach`` with an offset, and ``camera.detach``."""

import numpy as np
import pytest
import torch
from camera_scenes import build_room, room
from gl import needs_gl

import sensorium as sn
from sensorium import poses

pytestmark = needs_gl

QUAT = np.array([0.9, 0.1, -0.3, 0.2]) / np.linalg.norm([0.9, 0.1, -0.3, 0.2])
POSE = np.array([0.1, -0.2, 0.3, *QUAT])


def matrix(pose):
    """Return a pose (7,) as a transform (4, 4)."""
    out = np.eye(4)
    out[:3, :3] = np.stack([poses.rotate(pose[3:], axis) for axis in np.eye(3)], 1)
    out[:3, 3] = pose[:3]
    return out


def link_pose(scene, link, env):
    """Return the pose of a link as a transform (4, 4)."""
    world, body = scene.world, scene.model.body(link).id
    out = np.eye(4)
    out[:3, :3] = world.bind("xmat")[env, body].numpy().reshape(3, 3)
    out[:3, 3] = world.bind("xpos")[env, body].numpy()
    return out


def hand_scene(**options):
    scene, hand = build_room(
        sn.Camera(**{"link": "lower", "uuid": "hand", "pos": (0, 0, 0.35), "resolution": (16, 12), **options})
    )
    scene["arm"].set_joint_positions(torch.tensor([[0.2, 0.3], [-0.5, 0.1], [1.0, -1.2]]))
    scene.forward()
    return scene, hand


@pytest.mark.parametrize("form", ["pose", "transform", "tensor", "per env", "transforms per env"])
def test_offset_is_the_pose_in_the_frame_of_the_link(form):
    scene, hand = hand_scene()
    others = np.stack([POSE, poses.compose(POSE, POSE)])
    offset = {
        "pose": POSE.tolist(),
        "transform": matrix(POSE),
        "tensor": torch.from_numpy(matrix(POSE)),
        "per env": others,
        "transforms per env": np.stack([matrix(each) for each in others]),
    }[form]
    first = hand.read().rgb.clone()
    before = hand.cam2world_gl.clone()
    hand.attach("upper", offset, envs=[2, 0])
    for row, env in enumerate((2, 0)):
        expected = link_pose(scene, "arm/upper", env) @ matrix(others[row] if "per env" in form else POSE)
        torch.testing.assert_close(hand.cam2world_gl[env].double().numpy(), expected, atol=1e-6, rtol=0)
    assert torch.equal(hand.cam2world_gl[1], before[1])
    image = hand.read().rgb
    assert torch.equal(image[1], first[1])
    assert not torch.equal(image[0], first[0])
    scene.step(count=20)  # it follows
    expected = link_pose(scene, "arm/upper", 0) @ matrix(others[1] if "per env" in form else POSE)
    torch.testing.assert_close(hand.cam2world_gl[0].double().numpy(), expected, atol=1e-6, rtol=0)
    hand.attach(envs=[0, 2])  # link and pose of the options again
    expected = link_pose(scene, "arm/lower", 2)
    expected[:3, 3] += expected[:3, 2] * 0.35
    torch.testing.assert_close(hand.cam2world_gl[2].double().numpy(), expected, atol=1e-6, rtol=0)


def test_detached_camera_stays_where_it_is():
    scene, hand = hand_scene()
    scene.step(count=3)
    before = hand.cam2world_gl.clone()
    hand.detach(envs=[1])
    assert torch.equal(hand.cam2world_gl, before)
    scene.step(count=20)
    after = hand.cam2world_gl
    assert torch.equal(after[1], before[1])
    assert not torch.equal(after[0], before[0])
    hand.attach(envs=[1])
    assert not torch.equal(hand.cam2world_gl[1], before[1])


def test_fixed_camera_can_be_attached():
    scene, hand = hand_scene(link=None, pos=(0, 0, 1))
    with pytest.raises(sn.OptionError, match="attach: link must be set, since camera 'hand' was added without a link"):
        hand.attach()
    hand.attach("lower", POSE)
    expected = link_pose(scene, "arm/lower", 1) @ matrix(POSE)
    torch.testing.assert_close(hand.cam2world_gl[1].double().numpy(), expected, atol=1e-6, rtol=0)


def test_errors_name_the_argument_and_change_nothing():
    _, hand = hand_scene()
    before = hand.cam2world_gl.clone()
    sheared = matrix(POSE)
    sheared[0, 1] += 0.1
    mirrored = np.diag([1.0, 1.0, -1.0, 1.0])
    for arguments, error, message in (
        ({"link": "uper"}, sn.errors.NameNotFoundError, "attach: there is no link named 'uper' .did you mean"),
        ({"offset": (1, 2, 3)}, sn.OptionError, r"attach: offset must be a transform .* got shape \(3,\)"),
        ({"offset": np.zeros((2, 4, 4))}, sn.OptionError, r"\(3, 4, 4\).* got shape \(2, 4, 4\)"),
        ({"offset": sheared}, sn.OptionError, "attach: offset must be a rigid transform"),
        ({"offset": mirrored}, sn.OptionError, "attach: offset must be a rigid transform"),
        ({"offset": np.eye(4) * 2}, sn.OptionError, "attach: offset must be a rigid transform"),
        ({"offset": (0, 0, 0, 0, 0, 0, 0)}, sn.OptionError, "quaternion of offset must not be zero"),
        ({"offset": "abc"}, sn.OptionError, "attach: offset must be numbers"),
        ({"offset": np.full(7, np.nan)}, sn.OptionError, "attach: offset must be finite"),
        ({"envs": [7]}, sn.OptionError, "envs must be in"),
    ):
        with pytest.raises(error, match=message):
            hand.attach(**arguments)
    with pytest.raises(sn.OptionError, match="envs must be in"):
        hand.detach(envs=[3])
    assert torch.equal(hand.cam2world_gl, before)
    unbuilt = room().add_sensor(sn.Camera())
    with pytest.raises(sn.NotBuiltError, match="detach"):
        unbuilt.detach()


def test_replay_repeats_attach_and_detach(tmp_path):
    scene, hand = hand_scene()
    scene.step(count=5)
    hand.detach(envs=[0])  # before the recording: the pose at this time, not that at its start
    hand.set_pose(pos=(0.3, 0, 0.9), envs=[1])  # keeps the orientation of this time
    hand.set_intrinsics(hfov=30, envs=[1])
    hand.set_intrinsics(principal_point=(7, 5))  # replaces nothing of the call before
    scene.step(count=5)
    seen, lens = [], hand.intrinsics
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for step in range(8):
            if step == 3:
                hand.attach("upper", matrix(POSE), envs=[2])
            if step == 5:
                hand.detach(envs=[2])
            scene.step()
            recorder.step()
            seen.append(hand.cam2world_gl.clone())
    recording = sn.recording.Recording(tmp_path / "a")
    rebuilt = recording.build_scene()
    retracer = sn.recording.Retracer(recording, rebuilt)
    for step, expected in enumerate(seen):
        retracer.to(step)
        assert torch.equal(rebuilt.sensors["hand"].cam2world_gl, expected), step
        assert torch.equal(rebuilt.sensors["hand"].intrinsics, lens)
