"""``register_urdf``: robots by name from URDF files."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any, Literal

from sensorium.errors import DuplicateNameError, OptionError
from sensorium.robots.catalogue import OWN, make_of
from sensorium.worlds.urdf import Registration, UrdfReport, read_urdf, register


def register_urdf(
    name: str,
    file: str | os.PathLike[str],
    *,
    search: Sequence[str | os.PathLike[str]] = (),
    approximate: Literal["box", "cylinder"] | None = None,
    visuals: bool = True,
    free: bool = False,
    mend: bool = False,
    ignore: Collection[str] = (),
    replace: bool = False,
    **options: Any,
) -> UrdfReport:
    """Make a robot of a URDF file known by a name, for ``sn.robots.make(name)`` and ``scene.add_robot(name)``.

    The file is checked as a whole first: what MuJoCo would pass over in silence is an error with file and line, and
    then nothing is registered. A motor of each joint's name drives it by up to ``effort``, N m or N, where that is
    greater than 0; so do the robot's actions, unless ``move_groups`` or ``actions`` say otherwise.

    Args:
        name: what it will be called.
        file: a URDF file, or its text.
        search: folders of packages, for meshes named ``package://...`` and by relative paths; after them come those of
            ``ROS_PACKAGE_PATH``, and all folders above the file.
        approximate: replace spheres, capsules and meshes, of collision shapes only, by "box" or "cylinder" around them.
        visuals: whether visual shapes are kept; cameras see collision shapes where there are none.
        free: whether the root link moves freely.
        mend: mend masses and inertias that no body can have, and say so in the report, instead of refusing them.
        ignore: what to pass over though URDF does not have it: elements ("contact", "collision/material") and
            attributes ("limit@current").
        replace: whether another robot of that name may be replaced.
        **options: of :func:`make`: base, actions, move_groups, rig, radius, ...

    Returns:
        What became of the file: print it.

    Example:
        >>> report = sn.robots.register_urdf("my_arm", "my_arm/urdf/arm.urdf", approximate="box")
        >>> print(report)
        >>> robot = scene.add_module("robot", sn.robots.make("my_arm"))
    """
    if not isinstance(name, str) or not name or not name.isprintable() or any(letter in name for letter in "/.<"):
        raise OptionError(f"name must be text without '/', '.' and '<', got {name!r}")
    if name in OWN:
        raise DuplicateNameError(f"{name!r} is a robot of Sensorium's own; choose another name")
    model = read_urdf(
        file, search=search, approximate=approximate, visuals=visuals, free=free, mend=mend, ignore=ignore
    )
    if options:
        make_of(model, options)  # which says whether they fit
    register(name, Registration(model, options), replace)
    return model.report
