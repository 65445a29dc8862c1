"""``register_urdf``: register robots from URDF files under a name."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any, Literal

from sensorium.errors import DuplicateNameError, OptionError
from sensorium.robots.catalogue import CATALOGUE, make_of
from sensorium.worlds.urdf import Registration, Servos, UrdfReport, read_urdf, register


def register_urdf(
    name: str,
    file: str | os.PathLike[str],
    *,
    search: Sequence[str | os.PathLike[str]] = (),
    approximate: Literal["box", "cylinder"] | None = None,
    visuals: bool = True,
    free: bool = False,
    repair: bool = False,
    ignore: Collection[str] = (),
    strict: bool = True,
    servos: Servos | None = None,
    replace: bool = False,
    **options: Any,
) -> UrdfReport:
    """Register the robot of a URDF file under a name, for ``scene.add_robot(name)`` and ``sn.robots.make(name)``.

    The whole file is checked first. Problems that MuJoCo would ignore raise ModelError with file and line, and nothing
    is registered. Each joint with an ``effort`` > 0 gets a motor of its name with that limit, in N m or N. Without
    ``move_groups`` or ``actions``, there is one action for each motor.

    Args:
        name: the name.
        file: a URDF file, or its text.
        search: folders of packages, for meshes named ``package://...`` and by relative paths. The folders of
            ``ROS_PACKAGE_PATH``, all folders above the file and, for packages, those of ``AMENT_PREFIX_PATH`` are
            searched after them.
        approximate: replace spheres, capsules and meshes by an enclosing "box" or "cylinder", in collision shapes only.
        visuals: whether to keep visual shapes. Without them, cameras see the collision shapes.
        free: whether the root link moves freely.
        repair: repair physically impossible masses and inertias, and list them in the report, instead of raising.
        ignore: names that URDF does not have but that are ignored: elements ("contact", "collision/material") and
            attributes ("limit@current").
        strict: with False, problems that can be ignored, repaired or approximated do not raise. They are listed in the
            report and in one UserWarning: unknown elements and attributes, impossible inertias, moving links without a
            mass (they get 1 g), joints whose limits are missing or both 0, mimics of joints that do not exist, and
            visual meshes that cannot be read. Files that are not found raise.
        servos: position servos instead of motors: name of a joint, or a regular expression -> stiffness and damping, in
            N m/rad and N m s/rad (N/m and N s/m of sliding joints). The effort remains the limit. An action is then a
            target angle.
        replace: whether to replace another robot of that name.
        **options: options of :func:`make`: base, actions, move_groups, rig, radius, ...

    Returns:
        A report of the conversion; print it.

    Raises:
        ModelError: the file is invalid; the message has file and line of every problem.
        OptionError, NameNotFoundError: an argument cannot be used.
        DuplicateNameError: the name is taken.

    Example:
        >>> report = sn.robots.register_urdf("my_arm", "my_arm/urdf/arm.urdf", approximate="box")
        >>> print(report)
        >>> robot = scene.add_robot("my_arm")
        >>> sn.robots.register_urdf("go1", "go1_description/urdf/go1.urdf", strict=False, free=True)
    """
    if not isinstance(name, str) or not name or not name.isprintable() or any(letter in name for letter in "/.<"):
        raise OptionError(f"name must be text without '/', '.' and '<', got {name!r}")
    if name in CATALOGUE:
        raise DuplicateNameError(f"{name!r} is a robot of the catalogue; choose another name")
    model = read_urdf(
        file,
        search=search,
        approximate=approximate,
        visuals=visuals,
        free=free,
        repair=repair,
        ignore=ignore,
        strict=strict,
        servos=servos,
    )
    if options:
        make_of(model, options)  # raises if they do not fit the model
    register(name, Registration(model, options), replace)
    return model.report
