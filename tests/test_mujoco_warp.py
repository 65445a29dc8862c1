"""The adapter for internals of MuJoCo Warp has the names and parameters that our kernels use."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from sensorium.worlds import _mujoco_warp as adapter

ROOT = Path(__file__).parent.parent
ADAPTER = Path(adapter.__file__)

PARAMETERS = {
    "ray_eliminate": (
        "body_weldid geom_bodyid geom_matid geom_group geom_rgba mat_rgba geomid geomgroup flg_static bodyexclude"
    ),
    "ray_geom": "pos mat size pnt vec geomtype",
    "ray_hfield": ("geom_dataid hfield_size hfield_nrow hfield_ncol hfield_adr hfield_data pos mat pnt vec id worldid"),
    "ray_mesh_with_bvh": "mesh_bvh_id mesh_geom_id pos mat pnt vec max_t cull_backfaces",
}
"""Function -> its parameters, in order: our kernel passes them by position."""
RETURNS = {"ray_eliminate": 1, "ray_geom": 2, "ray_hfield": 2, "ray_mesh_with_bvh": 6}
"""Function -> number of values that it returns."""


def parameters(function):
    """Return the parameter names of a Warp or Python function."""
    types = getattr(function, "input_types", None)
    return tuple(types if types is not None else inspect.signature(function).parameters)


def n_returned(function):
    """Return the number of values that a Warp function returns, from its annotation."""
    annotation = inspect.signature(function.func).return_annotation
    return len(getattr(annotation, "__args__", (annotation,)))


def check(name, what, expected, got):
    """Fail with the installed and the checked version if ``got`` differs from ``expected``."""
    if expected != got:
        from mujoco_warp import __version__ as found

        pytest.fail(
            f"mujoco_warp {found} changed {what} of {name}: expected {expected}, got {got}; the adapter was checked "
            f"against {adapter.CHECKED['mujoco-warp']}"
        )


@pytest.mark.parametrize("name", PARAMETERS)
def test_functions_have_the_expected_parameters(name):
    function = getattr(adapter, name)
    check(name, "the parameters", tuple(PARAMETERS[name].split()), parameters(function))
    check(name, "the number of results", RETURNS[name], n_returned(function))


def test_changed_function_is_reported_with_both_versions():
    def ray_geom(pos, mat, radius):
        pass

    with pytest.raises(pytest.fail.Exception, match=r"^mujoco_warp .* changed the parameters of ray_geom: expected "):
        check("ray_geom", "the parameters", ("pos", "mat"), parameters(ray_geom))


def test_every_exported_function_is_checked():
    others = {"CHECKED", "changed", "fields_per_env", "vec5", "vec6"}
    assert set(adapter.__all__) == others | set(PARAMETERS)


def test_vec6_is_the_type_of_the_geomgroup_of_rays():
    import mujoco_warp as mjw

    assert inspect.signature(mjw.rays).parameters["geomgroup"].annotation is adapter.vec6
    assert list(adapter.vec6(*range(6))) == [0, 1, 2, 3, 4, 5]


def test_vec5_is_the_type_of_the_friction_of_contacts():
    import mujoco_warp as mjw

    contact = mjw.Contact.__annotations__
    assert contact["friction"].dtype is contact["solimp"].dtype is adapter.vec5


def test_fields_per_env_lists_the_fields_that_can_differ_per_env():
    import mujoco
    import mujoco_warp as mjw
    import warp as wp

    with wp.ScopedDevice("cpu"):
        m = mjw.put_model(mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>"))
    assert {"body_mass", "geom_size", "qpos0"} <= set(adapter.fields_per_env(m))
    assert "body_parentid" not in adapter.fields_per_env(m)
    assert {"gravity", "density"} <= set(adapter.fields_per_env(m.opt))


def test_checked_versions_are_the_pinned_versions():
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    assert {package: pinned[package] for package in adapter.CHECKED} == adapter.CHECKED


@pytest.mark.slow
def test_missing_internals_raise_an_error_that_names_both_versions():
    code = (
        "import sys, sensorium as sn\n"
        "from sensorium.worlds import warp_init\n"
        "import mujoco_warp._src.ray as ray\n"
        "del ray.ray_hfield\n"
        "try:\n"
        "    import sensorium.worlds._mujoco_warp\n"
        "except sn.DeviceError as error:\n"
        "    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "cannot import name 'ray_hfield'" in out
    assert "Installed: mujoco-warp" in out
    assert "checked: mujoco-warp==4.0.0, warp-lang==1.19.0. Install the checked versions" in out


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "examples"])
def test_no_other_module_uses_internals_of_mujoco_warp(folder):
    for file in (ROOT / folder).rglob("*.py"):
        if file in (ADAPTER, Path(__file__)):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            private = any(name.startswith(("mujoco_warp._src", "warp._src")) for name in names)
            private |= isinstance(node, ast.Attribute) and node.attr == "_src"
            assert not private, f"{file.relative_to(ROOT)}:{node.lineno} uses internals: add them to {ADAPTER.name}"
