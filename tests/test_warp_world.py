"""What of the GPU world runs without a GPU: its own small kernels on Warp's CPU device, and the choice of room."""

import mujoco
import numpy as np
import pytest
from conftest import ARM

from sensorium.worlds.capacity import capacities, contact_bound

wp = pytest.importorskip("warp")


def array(values, dtype=float):
    return wp.array(np.asarray(values), dtype=dtype, device="cpu")


def test_finish_step_counts_keeps_time_and_holds_what_diverged():
    from sensorium.worlds import warp_world

    qpos0 = array([[0.5, 0.6]])
    qpos = array([[1.0, 2.0], [np.nan, 2.0], [1.0, 2.0], [3.0, 4.0]])
    qvel = array([[1.0], [1.0], [2e10], [1.0]])
    warmstart = array([[9.0]] * 4)
    overflow = array([0, 0, 0, 2 | 512], int)
    time, steps = array([0.0] * 4), array([4, 4, 4, 4], int)
    failed, status = array([0, 0, 0, 2], int), array([0, 0], int)
    inputs = [qpos0, qpos, qvel, warmstart, overflow, warp_world._HARMLESS, 0.01]
    wp.launch(warp_world._finish_step, dim=4, inputs=inputs, outputs=[time, steps, failed, status], device="cpu")
    assert steps.numpy().tolist() == [5, 4, 4, 4]
    np.testing.assert_allclose(time.numpy(), [0.05, 0.04, 0.04, 0.04], rtol=1e-6)
    assert failed.numpy().tolist() == [0, 1, 1, 2]
    assert status.numpy().tolist() == [1, 1]
    np.testing.assert_allclose(qpos.numpy(), [[1, 2], [0.5, 0.6], [0.5, 0.6], [0.5, 0.6]], rtol=1e-6)
    assert qvel.numpy()[:, 0].tolist() == [1, 0, 0, 0]
    assert warmstart.numpy()[:, 0].tolist() == [9, 0, 0, 0]


def test_restart_leaves_the_others_alone():
    from sensorium.worlds import warp_world

    mask = array([True, False], bool)
    for fresh, expected in ((True, 0), (False, 3)):
        warmstart, saved = array([[1.0], [2.0]]), array([[7.0], [8.0]])
        time, steps, failed = array([0.03, 0.05]), array([9, 9], int), array([2, 2], int)
        outputs = [warmstart, time, steps, failed]
        wp.launch(warp_world._restart, dim=2, inputs=[mask, fresh, 0.01, saved], outputs=outputs, device="cpu")
        assert warmstart.numpy()[:, 0].tolist() == [1, 8]
        assert steps.numpy().tolist() == [expected, 9]
        assert failed.numpy().tolist() == [0, 2]


def test_capacities_hold_what_can_touch():
    """Every contact that MuJoCo finds in a heap of all shapes has its room."""
    shapes = ("box", "sphere", "capsule", "cylinder", "ellipsoid")
    bodies = "".join(
        f'<body pos="0 0 {0.12 + 0.05 * i}"><freejoint/><geom type="{shape}" size="0.1 0.1 0.1"/></body>'
        for i, shape in enumerate(shapes)
    )
    xml = f'<mujoco><worldbody><geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    contacts, rows = contact_bound(model)
    nconmax, njmax = capacities(model)
    most = 0
    for _ in range(200):
        mujoco.mj_step(model, data)
        most = max(most, data.ncon)
        assert data.ncon <= contacts
        assert data.nefc <= rows
        assert data.ncon <= nconmax
        assert data.nefc <= njmax
    assert most > 4


def test_capacities_leave_out_what_cannot_touch():
    model = mujoco.MjModel.from_xml_string(ARM)
    assert contact_bound(model) == (0, 0), "parent and child do not collide"
    assert capacities(model) == (8, 8)
