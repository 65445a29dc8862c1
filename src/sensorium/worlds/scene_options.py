"""``SceneOptions``: physics and sensing options of a whole scene."""

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
    """Options of a scene. They replace the ``<option>`` elements of all models that are added to it."""

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
    """Friction cones of contacts. "elliptic" is physically exact, and objects held by grippers slip less."""
    impratio: float = Field(default=1.0, gt=0)
    """Ratio of frictional to normal constraint impedance. With elliptic cones, 10 makes objects held by grippers slip
    less."""
    exact_sensing: bool = True
    """Update poses, velocities and distances to time t after each step. Without it they are one substep old, and a step
    is slightly cheaper."""
    sky: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None
    """Background of camera images: the colours (red, green, blue in [0, 1]) at the top and at the bottom of a gradient.
    Default: the skybox of the models if they have one, otherwise black."""

    @field_validator("sky")
    @classmethod
    def _sky(cls, value: tuple[tuple[float, ...], ...] | None) -> tuple[tuple[float, ...], ...] | None:
        if value is not None and not all(0 <= part <= 1 for colour in value for part in colour):
            raise ValueError("colour components must be in [0, 1]")
        return value
