"""``SceneOptions``: physics and sensing options of a whole scene."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from sensorium.options import Options
from sensorium.worlds.environments import EnvironmentMap

DisableFlag = Literal[
    "constraint",
    "equality",
    "frictionloss",
    "limit",
    "contact",
    "spring",
    "damper",
    "gravity",
    "clampctrl",
    "warmstart",
    "filterparent",
    "actuation",
    "refsafe",
    "midphase",
    "eulerdamp",
    "nativeccd",
    "island",
    "multiccd",
]
"""Parts of MuJoCo that are on by default."""
EnableFlag = Literal["energy", "fwdinv", "invdiscrete", "diagexact", "speculative"]
"""Parts of MuJoCo that are off by default."""
_MAX_INT = 2**31 - 1
"""Upper bound of the integers of MuJoCo."""


MAX_STEPS = 10**9
"""Largest ``count`` of one ``scene.step()``. Larger ones are mistakes in the arithmetic of a caller."""


class SceneOptions(Options):
    """Options of a scene. They replace the ``<option>`` elements of all models that are added to it.

    The options of the physics have the names, units and defaults of MuJoCo's ``<option>``. ``build()`` raises
    :class:`~sensorium.OptionError` if the engine of the device lacks one.
    """

    dt: float = Field(default=0.01, gt=0)
    """Seconds of one ``scene.step()``."""
    substeps: int = Field(default=5, ge=1)
    """Physics steps in one ``scene.step()``."""
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    """Gravity in m/s², world frame."""
    magnetic_field: tuple[float, float, float] = (0.0, 2.1e-5, -4.3e-5)
    """Magnetic field in tesla, world frame. Default: mid-northern latitudes with x east, y north, z up."""
    wind: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Velocity of the medium in m/s, world frame. It acts through ``density`` and ``viscosity``."""
    density: float = Field(default=0.0, ge=0)
    """Density of the medium in kg/m³: 1.2 for air, 1000 for water. It causes drag and lift, and no buoyancy."""
    viscosity: float = Field(default=0.0, ge=0)
    """Viscosity of the medium in Pa·s: 1.8e-5 for air, 9e-4 for water."""
    integrator: Literal["euler", "rk4", "implicit", "implicitfast"] = "euler"
    """MuJoCo's integrator."""
    cone: Literal["pyramidal", "elliptic"] = "pyramidal"
    """Friction cones of contacts. "elliptic" is physically exact, and objects held by grippers slip less."""
    impratio: float = Field(default=1.0, gt=0)
    """Ratio of frictional to normal constraint impedance. With elliptic cones, 10 makes objects held by grippers slip
    less."""
    solver: Literal["newton", "cg", "pgs"] = "newton"
    """Constraint solver. "pgs" exists on the CPU only."""
    iterations: int | None = Field(default=None, ge=1, le=_MAX_INT)
    """Max iterations of the solver. Default: 100; on a GPU, where the slowest env decides how long all envs iterate, 10
    for "newton" with pyramidal cones and 20 with elliptic ones."""
    ls_iterations: int | None = Field(default=None, ge=1, le=_MAX_INT)
    """Max iterations of the line search of "newton" and "cg". Default: 50; on a GPU 20 for "newton" with pyramidal
    cones."""
    tolerance: float = Field(default=1e-8, ge=0)
    """The solver stops when the scaled improvement of an iteration is smaller. A GPU, in single precision, uses at
    least 1e-6."""
    ls_tolerance: float = Field(default=0.01, ge=0)
    """The line search stops when the scaled gradient is smaller."""
    noslip_iterations: int = Field(default=0, ge=0, le=_MAX_INT)
    """Max iterations of the solver that afterwards suppresses slip by friction. 0 skips it."""
    jacobian: Literal["auto", "dense", "sparse"] = "auto"
    """Form of the constraint Jacobian. "auto" is "sparse" for models with many degrees of freedom."""
    disable: tuple[DisableFlag, ...] = ()
    """Parts of the physics to disable, by the names of MuJoCo's ``<flag>``. "sensor" and "autoreset" are not among
    them: sensors and the handling of divergence need both."""
    enable: tuple[EnableFlag, ...] = ()
    """Parts of the physics to enable, by the names of MuJoCo's ``<flag>``. "sleep" and "ipc" are not among them: their
    records are not part of the physics state. Neither is "override": use ``scene.add_contact_pair``."""
    simple_bodies: bool = True
    """Use MuJoCo's faster form of the inertia of links whose centre of mass is at their origin, such as primitives.
    False allows it to differ per env (``scene.world.expand("body_ipos")``)."""
    exact_sensing: bool = True
    """Update poses, velocities and distances to time t after each step. Without it they are one substep old, and a step
    is slightly cheaper."""
    sky: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None
    """Background of camera images: the colours (red, green, blue in [0, 1]) at the top and at the bottom of a gradient.
    Default: the skybox of the models if they have one, otherwise black."""
    environments: tuple[EnvironmentMap, ...] = ()
    """Environment maps instead of ``sky``, as file names or ``sn.EnvironmentMap``. All envs show the first one, until
    ``scene.set_environment`` chooses another. The path tracer also lights the scene with it."""

    @field_validator("sky")
    @classmethod
    def _sky(cls, value: tuple[tuple[float, ...], ...] | None) -> tuple[tuple[float, ...], ...] | None:
        if value is not None and not all(0 <= part <= 1 for colour in value for part in colour):
            raise ValueError("colour components must be in [0, 1]")
        return value

    @model_validator(mode="after")
    def _one_background(self) -> SceneOptions:
        if self.sky is not None and self.environments:
            raise ValueError("sky and environments are both the background; set only one of them")
        return self
