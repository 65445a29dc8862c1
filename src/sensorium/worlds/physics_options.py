"""The physics options of a scene in an engine: their defaults on a device, what a GPU lacks, and MuJoCo's form."""

from __future__ import annotations

from collections.abc import Iterable

import mujoco

from sensorium.errors import OptionError, shorten
from sensorium.worlds.scene_options import SceneOptions

_ON_CPU = (100, 50)
"""Iterations of the solver and of its line search: MuJoCo's defaults."""
_NEWTON_ON_GPU = {"pyramidal": (10, 20), "elliptic": (20, 50)}
"""Friction cone -> the same on a GPU; docs/benchmarks.md has their error."""
_IGNORED_ON_GPU = frozenset({"nativeccd"})
"""Flags that MuJoCo Warp accepts without effect. Checked with mujoco_warp 4.0.0."""


def on_device(options: SceneOptions, is_gpu: bool) -> SceneOptions:
    """Return options without None among those of the solver: what was not given gets the default of the engine."""
    limits = _NEWTON_ON_GPU[options.cone] if is_gpu and options.solver == "newton" else _ON_CPU
    defaults = dict(zip(("iterations", "ls_iterations"), limits, strict=True))
    missing = {name: value for name, value in defaults.items() if getattr(options, name) is None}
    return options.model_copy(update=missing)


def check_gpu_options(options: SceneOptions) -> None:
    """Raise OptionError if MuJoCo Warp lacks an option of the physics."""
    from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

    import mujoco_warp as mjw  # isort: skip

    refused = []
    solvers = [str(solver.name).lower() for solver in mjw.SolverType]
    if options.solver not in solvers:
        refused.append(f"solver={options.solver!r} (it has {shorten(solvers)})")
    for option, bits, given in (
        ("disable", mjw.DisableBit, options.disable),
        ("enable", mjw.EnableBit, options.enable),
    ):
        known = {str(bit.name).lower() for bit in bits} - _IGNORED_ON_GPU
        refused += [f"{option}={flag!r}" for flag in given if flag not in known]
    if refused:
        raise OptionError(
            f"the GPU engine, MuJoCo Warp, lacks these options of the scene: {', '.join(refused)}. Remove them, or "
            "build with device='cpu'"
        )


def write_options(option: mujoco.MjOption, options: SceneOptions) -> None:
    """Write the options of the physics into the ``<option>`` of a spec."""
    option.timestep = options.dt / options.substeps
    option.magnetic = options.magnetic_field
    for name in ("gravity", "wind", "density", "viscosity", "impratio"):
        setattr(option, name, getattr(options, name))
    for name in ("iterations", "ls_iterations", "tolerance", "ls_tolerance", "noslip_iterations"):
        setattr(option, name, getattr(options, name))
    option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{options.integrator.upper()}")
    option.cone = getattr(mujoco.mjtCone, f"mjCONE_{options.cone.upper()}")
    option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{options.solver.upper()}")
    option.jacobian = getattr(mujoco.mjtJacobian, f"mjJAC_{options.jacobian.upper()}")
    option.disableflags = _bits(mujoco.mjtDisableBit, "mjDSBL", options.disable)
    option.enableflags = _bits(mujoco.mjtEnableBit, "mjENBL", options.enable)


def _bits(flags: type, prefix: str, names: Iterable[str]) -> int:
    """Return the bits of flags by name."""
    return sum(int(getattr(flags, f"{prefix}_{name.upper()}")) for name in set(names))
