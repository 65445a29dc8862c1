"""The package itself: layers, weight of the import, public names."""

import ast
import inspect
import itertools
import re
import subprocess
import sys
import textwrap
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import sensorium as sn

SOURCE = Path(sn.__file__).parent
BASE = {"_system", "_viewing", "compiling", "errors", "files", "jit", "options"}
SENSING = BASE | {"tree", "worlds", "pipeline", "sensors", "cameras"}
MAY_IMPORT = {
    "tree": BASE,
    "worlds": BASE | {"tree"},
    "pipeline": BASE | {"tree", "worlds"},
    "sensors": BASE | {"tree", "worlds", "pipeline"},
    "viewer": SENSING | {"suites", "recording", "datasets", "robots", "tasks", "generation"},
    "poses": set(),
    "suites": SENSING | {"poses"},
    "robots": SENSING | {"poses", "suites"},
    "scenarios": SENSING | {"robots"},
    "tasks": SENSING | {"poses", "suites", "robots", "scenarios"},
    "policies": SENSING | {"poses", "suites", "robots", "scenarios", "tasks"},
    "recording": SENSING | {"poses", "suites", "robots"},
    "datasets": SENSING | {"poses", "suites", "robots", "recording", "viewer"},  # view() imports it when it is called
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


PROJECT = Path(__file__).parent.parent / "pyproject.toml"
DISTRIBUTIONS = {"OpenGL": "pyopengl", "PIL": "pillow", "rerun": "rerun-sdk", "warp": "warp-lang", "yaml": "pyyaml"}
"""Modules whose distribution has another name."""
EXTRAS = {
    "cameras/pathtrace/": ["photoreal"],
    "datasets/export/": ["export", "rerun"],
    "entities/": ["train"],
    "generation/cluster.py": ["cluster"],
    "tasks/parallel.py": ["train"],
    "training/": ["train"],
    "viewer/": ["view"],
}
"""Start of a path in the package -> the extras whose distributions it may import, besides those of the core."""
BUNDLED = {"drjit": "mitsuba", "pydantic-core": "pydantic"}
"""Imported but not declared, since the declared distribution on the right requires one exact version of it."""
NOT_IMPORTED = {"tensorboard": "torch.utils.tensorboard, which training/log.py imports, needs it"}
"""Declared but not imported by name -> why. The tools of the extras test and dev are not checked."""


def declared():
    """Names of the distributions that the core (None) and each extra of users declare."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    groups = {None: project["dependencies"], **project["optional-dependencies"]}
    names = {extra: {re.match(r"[\w.-]+", one)[0].lower() for one in group} for extra, group in groups.items()}
    return {extra: group for extra, group in names.items() if extra not in ("test", "dev")}


def imported():
    """(file, distribution) of each third-party import in the package, lazy ones and import_module("name") included."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "find_spec")):
                names = [each.value for each in node.args[:1] if isinstance(each, ast.Constant)]
            for module in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"sensorium"}:
                name = DISTRIBUTIONS.get(module, module.replace("_", "-").lower())
                yield file.relative_to(SOURCE).as_posix(), name


def test_imports_are_declared():
    groups = declared()
    for file, name in imported():
        extras = [extra for start, extras in EXTRAS.items() if file.startswith(start) for extra in extras]
        allowed = groups[None].union(*(groups[extra] for extra in extras))
        name = BUNDLED.get(name, name)
        assert name in allowed, f"{file} imports {name}, which pyproject.toml does not declare in {['core', *extras]}"


def test_declared_distributions_are_imported():
    used = {name for _, name in imported()}
    for extra, names in declared().items():
        unused = names - used - NOT_IMPORTED.keys()
        assert not unused, f"{extra or 'the core'} declares {sorted(unused)}, which the package does not import"


def test_version_is_that_of_the_installed_distribution():
    assert tomllib.loads(PROJECT.read_text())["project"]["dynamic"] == ["version"]
    assert sn.__version__ == metadata.version("sensorium")
