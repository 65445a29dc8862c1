"""The initial pose on the GPU engine: written over the defaults of the model after a reset."""

from __future__ import annotations

import mujoco
import warp as wp

from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

import mujoco_warp as mjw  # isort: skip

from sensorium.worlds.initial_pose import initial_key
from sensorium.worlds.watch_kernels import copy_row


def write_initial(model: mujoco.MjModel, m: mjw.Model, d: mjw.Data, mask: wp.array) -> None:
    """Write the initial positions, controls and activations into the envs of a mask, if the model has them.

    It only launches kernels. MuJoCo Warp's own reset to a keyframe would allocate memory.

    Args:
        model: the compiled model.
        m: MuJoCo Warp's model.
        d: MuJoCo Warp's data.
        mask: (B,) bool.
    """
    key = initial_key(model)
    if key < 0:
        return
    for values, field in ((m.key_qpos, d.qpos), (m.key_ctrl, d.ctrl), (m.key_act, d.act)):
        if field.shape[1]:
            wp.launch(copy_row, dim=field.shape, inputs=[mask, values, key], outputs=[field])
