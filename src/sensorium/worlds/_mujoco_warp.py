"""The only module that imports internals of MuJoCo Warp (``mujoco_warp._src``) or relies on how it is laid out.

Checked against mujoco_warp 4.0.0 with warp 1.19.0. MuJoCo Warp exports no ray intersection that a kernel can call and
none of its vector types, so both come from its internals, which may change in any release. If a name
is missing, the import raises :class:`DeviceError`; ``tests/test_mujoco_warp.py`` checks the parameters.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import warp as wp

from sensorium.errors import DeviceError
from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

CHECKED = {"mujoco-warp": "4.0.0", "warp-lang": "1.19.0"}
"""Package -> the version that this module was checked against."""


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "no version"


def changed(error: Exception) -> DeviceError:
    """Return the error for a MuJoCo Warp whose internals differ from those of the checked version."""
    found = ", ".join(f"{package} {_installed(package)}" for package in CHECKED)
    checked = ", ".join(f"{package}=={number}" for package, number in CHECKED.items())
    return DeviceError(
        f"MuJoCo Warp lacks an internal function that ray casting on the GPU needs ({error}). Installed: {found}; "
        f"checked: {checked}. Install the checked versions (pip install {checked.replace(',', '')}), or build with "
        "device='cpu'"
    )


try:
    from mujoco_warp._src.ray import _ray_eliminate as ray_eliminate
    from mujoco_warp._src.ray import ray_geom, ray_hfield, ray_mesh_with_bvh
    from mujoco_warp._src.types import vec5, vec6
except (ImportError, AttributeError) as error:
    raise changed(error) from error

__all__ = [
    "CHECKED",
    "changed",
    "fields_per_env",
    "ray_eliminate",
    "ray_geom",
    "ray_hfield",
    "ray_mesh_with_bvh",
    "vec5",
    "vec6",
]


def fields_per_env(owner: object) -> list[str]:
    """Return the names of the arrays of a MuJoCo Warp ``Model`` or ``Option`` that can differ per env.

    Its dataclasses annotate such a field with an array whose first dimension is named "*".
    """
    annotations = type(owner).__annotations__
    return [name for name, kind in annotations.items() if isinstance(kind, wp.array) and kind.shape[0] == "*"]
