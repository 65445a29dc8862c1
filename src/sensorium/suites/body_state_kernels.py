"""The Numba kernel of :class:`sensorium.suites.state.BodyStates`."""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel


@kernel
def gather(
    xpos: np.ndarray,
    xquat: np.ndarray,
    cvel: np.ndarray,
    com: np.ndarray,
    bodies: np.ndarray,
    roots: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the poses and velocities of some bodies in the world frame.

    Args:
        xpos, xquat: (B, bodies, 3) and (B, bodies, 4), MuJoCo's fields of the same names.
        cvel: (B, bodies, 6), MuJoCo's field: angular velocity, then linear velocity at the centre of mass of the tree.
        com: (B, bodies, 3), MuJoCo's field ``subtree_com``.
        bodies: (n,) ids of the bodies.
        roots: (n,) ids of the roots of their trees.
        out: (B, n, 13), filled with position, quaternion, linear and angular velocity.
    """
    for env in range(len(out)):
        for row in range(len(bodies)):
            body, root, state = bodies[row], roots[row], out[env, row]
            turn, slide = cvel[env, body, :3], cvel[env, body, 3:]
            x = xpos[env, body, 0] - com[env, root, 0]
            y = xpos[env, body, 1] - com[env, root, 1]
            z = xpos[env, body, 2] - com[env, root, 2]
            for i in range(3):
                state[i] = xpos[env, body, i]
                state[10 + i] = turn[i]
            for i in range(4):
                state[3 + i] = xquat[env, body, i]
            state[7] = slide[0] + (turn[1] * z - turn[2] * y)
            state[8] = slide[1] + (turn[2] * x - turn[0] * z)
            state[9] = slide[2] + (turn[0] * y - turn[1] * x)
