"""Dependencies: every import is declared in pyproject.toml, in the core or in the extra that needs it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import sensorium as sn

SOURCE = Path(sn.__file__).parent
PROJECT = Path(__file__).parent.parent / "pyproject.toml"
DISTRIBUTIONS = {
    "OpenGL": "pyopengl",
    "PIL": "pillow",
    "rerun": "rerun-sdk",
    "rsl_rl": "rsl-rl-lib",
    "warp": "warp-lang",
    "yaml": "pyyaml",
}
"""Modules whose distribution has another name."""
EXTRAS = {
    "cameras/pathtrace/": ["photoreal"],
    "datasets/export/": ["export", "rerun"],
    "deploy/": ["deploy"],
    "entities/": ["train"],
    "generation/cluster.py": ["cluster"],
    "generation/onnx_policy.py": ["deploy"],
    "tasks/parallel.py": ["train"],
    "tasks/tensor/": ["train"],
    "tasks/sb3.py": ["train"],
    "training/": ["train"],
    "viewer/": ["view"],
}
"""Start of a path in the package -> the extras whose distributions it may import, besides those of the core."""
BUNDLED = {"drjit": "mitsuba", "glfw": "mujoco", "pydantic-core": "pydantic"}
"""Imported or found but not declared, since the declared distribution on the right requires it."""
TYPES_ONLY = {"typing-extensions"}
"""Imported for type checkers only (``if TYPE_CHECKING``), which bring it along."""
NOT_IMPORTED = {
    "tensorboard": "torch.utils.tensorboard, which training/log.py imports, needs it",
    "mcap": "ros/mcap_file.py imports its modules by their names as text",
}
"""Declared but not imported by name -> why. The tools of the extras docs, test and dev are not checked."""


def declared() -> dict[str | None, set[str]]:
    """Return the names of the distributions that the core (None) and each extra of users declare."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    groups = {None: project["dependencies"], **project["optional-dependencies"]}
    names = {extra: {re.match(r"[\w.-]+", each)[0].lower() for each in group} for extra, group in groups.items()}
    return {extra: group for extra, group in names.items() if extra not in ("all", "docs", "test", "dev")}


def imported() -> Iterator[tuple[str, str]]:
    """Yield (file, distribution) of each third-party import, including lazy ones and import_module("name")."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "find_spec")):
                names = [each.value for each in node.args[:1] if isinstance(each, ast.Constant)]
            for module in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"sensorium"}:
                yield file.relative_to(SOURCE).as_posix(), DISTRIBUTIONS.get(module, module.replace("_", "-").lower())


def test_imports_are_declared():
    groups = declared()
    for file, name in imported():
        if name in TYPES_ONLY:
            continue
        extras = [extra for start, extras in EXTRAS.items() if file.startswith(start) for extra in extras]
        allowed = groups[None].union(*(groups[extra] for extra in extras))
        name = BUNDLED.get(name, name)
        assert name in allowed, f"{file} imports {name}, which pyproject.toml does not declare in {['core', *extras]}"


def test_declared_distributions_are_imported():
    used = {name for _, name in imported()}
    for extra, names in declared().items():
        unused = names - used - NOT_IMPORTED.keys()
        assert not unused, f"{extra or 'the core'} declares {sorted(unused)}, which the package does not import"


def test_version_matches_the_installed_distribution():
    assert tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dynamic"] == ["version"]
    assert sn.__version__ == metadata.version("sensorium")


def test_all_includes_every_extra_and_the_readme_states_their_sizes():
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    included = re.search(r"\[(.*)\]", extras["all"][0])[1].split(",")
    assert set(included) == set(extras) - {"all", "demo", "test", "dev", "docs"}
    readme = (PROJECT.parent / "README.md").read_text(encoding="utf-8")
    for extra in ("all", *included):
        assert re.search(rf"\| `{extra}` \| [^|]+ \| \+?[\d,]+ MB", readme), extra


LEAN = PROJECT.parent / "requirements-lean.txt"
LEAN_WORKS = """
import sys
for name in {omitted}:
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
import sensorium as sn

scene = sn.Scene(dt=0.01)
scene.add_object(sn.Plane())
scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.5), free=True)
sensors = [
    scene.add_sensor(options)
    for options in (
        sn.IMU(link="box", acc_noise=0.05, delay=0.02),
        sn.Lidar(link="box", pos=(0, 0, 0.2)),
        sn.ContactForce(link="box"),
        sn.TactileArray(link="box", pos=(0, 0, -0.1), grid=(3, 3), spacing=0.01),
        sn.TemperatureGrid(link="box"),
    )
]
scene.build(n_envs=2)
scene.step(5)
assert all(sensor.read() is not None for sensor in sensors)
task = sn.tasks.make("pick")
task.register_policy(sn.policies.make("planner", task))
observation, _ = task.reset()
assert observation in task.suite.space
with sn.recording.Recorder(scene, sys.argv[1]) as recorder:
    scene.step()
    recorder.step()
from sensorium.cli import main
main(["validate", sys.argv[1]])
"""


def lean() -> list[str]:
    """Return the requirements of the lean installation."""
    lines = LEAN.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_lean_requirements_are_requirements_of_the_core():
    core = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    assert set(lean()) < set(core)


@pytest.mark.slow
def test_lean_installation_senses_runs_tasks_and_records(tmp_path):
    omitted = declared()[None] - {re.match(r"[\w.-]+", each)[0] for each in lean()}
    assert omitted == {"warp-lang", "mujoco-warp", "av", "matplotlib"}
    modules = [{"warp-lang": "warp"}.get(name, name.replace("-", "_")) for name in sorted(omitted)]
    code = LEAN_WORKS.format(omitted=modules)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
