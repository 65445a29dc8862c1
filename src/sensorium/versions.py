"""The package versions that go into file headers."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("sensorium", "mujoco", "numpy", "torch", "h5py", "av", "gymnasium")


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of the packages that can change a result, for file headers: package -> version."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # running from a source tree
            found[package] = "unknown"
    return found
