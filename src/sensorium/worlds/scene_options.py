"""Options of a whole scene."""

from __future__ import annotations

from typing import Literal

import mujoco
from pydantic import Field, field_validator

from sensorium.options import Options

INTEGRATORS = {
    "euler": mujoco.mjtIntegrator.mjINT_EULER,
    "rk4": mujoco.mjtIntegrator.mjINT_RK4,
    "implicit": mujoco.mjtIntegrator.mjINT_IMPLICIT,
    "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
}
CONES = {"pyramidal": mujoco.mjtCone.mjCONE_PYRAMIDAL, "elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC}


class SceneOptions(Options):
    """Options of the whole scene. Those of attached models are dropped: these hold for everything."""

    dt: float = Field(default=0.01, gt=0)
    """Seconds of one ``scene.step()``."""
    substeps: int = Field(default=5, ge=1)
    """Physics steps in one ``scene.step()``."""
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    """Gravity in m/s², world frame."""
    magnetic_field: tuple[float, float, float] = (0.0, 2.1e-5, -4.3e-5)
    """Magnetic field in tesla, world frame. Default: mid-northern latitudes with x east, y north, z up."""
    integrator: Literal["euler", "rk4", "implicit", "implicitfast"] = "euler"
    """MuJoCo's integrator."""
    cone: Literal["pyramidal", "elliptic"] = "pyramidal"
    """Friction cones of contacts: "elliptic" ones are those of nature, and what grippers hold creeps less by them."""
    impratio: float = Field(default=1.0, gt=0)
    """How much stiffer contacts are along the surface than across it. What grippers hold creeps less by 10, with
    elliptic cones."""
    exact_sensing: bool = True
    """Bring poses, velocities and distances up to time t after each step. Without it they are one substep old, and a
    step is a little cheaper."""
    sky: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None
    """What cameras see behind everything: colours (red, green, blue in [0, 1]) overhead and below, with a gradient
    between. Default: what the models bring along, else black."""

    @field_validator("sky")
    @classmethod
    def _sky(cls, value: tuple[tuple[float, ...], ...] | None) -> tuple[tuple[float, ...], ...] | None:
        if value is not None and not all(0 <= part <= 1 for colour in value for part in colour):
            raise ValueError("colour components must lie in [0, 1]")
        return value
