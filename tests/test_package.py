"""The package itself: layers, weight of the import, public names."""

import ast
import inspect
import itertools
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import sensorium as sn

SOURCE = Path(sn.__file__).parent
BASE = {"_system", "compiling", "errors", "jit", "options"}
SENSING = BASE | {"tree", "worlds", "pipeline", "sensors", "cameras"}
MAY_IMPORT = {
    "tree": BASE,
    "worlds": BASE | {"tree", "viewer"},  # scene.view() imports it when it is called
    "pipeline": BASE | {"tree", "worlds"},
    "sensors": BASE | {"tree", "worlds", "pipeline"},
    "viewer": SENSING | {"suites", "datasets", "robots", "tasks", "generation"},
    "poses": set(),
    "suites": SENSING | {"poses"},
    "robots": SENSING | {"poses", "suites"},
    "scenarios": SENSING | {"robots"},
    "tasks": SENSING | {"poses", "suites", "robots", "scenarios"},
    "policies": SENSING | {"poses", "suites", "robots", "scenarios", "tasks"},
    "datasets": SENSING | {"poses", "suites", "robots", "viewer"},  # view() imports it when it is called
    "generation": SENSING | {"suites", "datasets", "tasks", "policies"},
    "entities": SENSING | {"poses", "suites", "robots", "datasets"},
    "training": SENSING | {"robots", "suites", "datasets", "tasks", "entities"},
    "testing": BASE | {"tree", "worlds", "pipeline", "sensors"},
}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package):
    files = [SOURCE / f"{package}.py"] if (SOURCE / f"{package}.py").exists() else (SOURCE / package).rglob("*.py")
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name and name.startswith("sensorium."):
                    layer = name.split(".")[1]
                    assert layer in MAY_IMPORT[package] | {package}, f"{file.name} imports {name}"


def test_importing_is_light():
    heavy = [
        "numba",
        "warp",
        "mujoco_warp",
        "gymnasium",
        "h5py",
        "av",
        "matplotlib",
        "tyro",
        "rich",
        "viser",
        "scipy",
        "yaml",
    ]
    code = f"import sys, sensorium; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_public_names_are_documented():
    for package in (sn, sn.datasets, sn.robots, sn.scenarios):
        for name in package.__all__:
            value = getattr(package, name)
            if name != "__version__":
                assert value.__doc__, f"{name} has no docstring"


def test_every_option_has_a_docstring():
    for package in (sn, sn.datasets, sn.robots, sn.scenarios):
        for name in package.__all__:
            value = getattr(package, name)
            if isinstance(value, type) and issubclass(value, sn.Options):
                described = set().union(*(_described(one) for one in value.__mro__ if issubclass(one, sn.Options)))
                missing = value.model_fields.keys() - described
                assert not missing, f"{name} has options without a docstring: {missing}"


def _described(options):
    """The options that a class declares with a docstring below each."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(options))).body
    fields = [(one, below) for one, below in itertools.pairwise(tree.body) if isinstance(one, ast.AnnAssign)]
    return {
        one.target.id for one, below in fields if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }
