"""A Numba kernel of :mod:`sensorium.suites.state`."""

from __future__ import annotations

from typing import Any

from sensorium.jit import kernel


@kernel
def gather(xpos: Any, xquat: Any, cvel: Any, com: Any, bodies: Any, roots: Any, out: Any) -> None:
    """Pose, linear and angular velocity (B, n, 13) of some bodies in the world frame, from the engine's fields.

    ``cvel`` is rotation, then translation at the centre of mass of the whole tree, whose root is in ``roots``.
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
