"""The package as a whole: import layers, import weight, public names, documentation, file sizes and wording.

``MAY_IMPORT`` is the layer diagram of docs/architecture.md. A new package or top-level module needs an entry there.
"""

import ast
import functools
import graphlib
import importlib
import inspect
import io
import itertools
import pkgutil
import re
import subprocess
import sys
import textwrap
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import sensorium as sn

ROOT = Path(__file__).parent.parent
SOURCE = Path(sn.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@functools.cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse(file.read_text(encoding="utf-8"))


def name_of(file: Path) -> str:
    """Return the path of a source file in the package: "worlds/scene.py"."""
    return file.relative_to(SOURCE).as_posix()


# -- import layers -----------------------------------------------------------------------------------------------------

BASE = {
    "_arguments",
    "_notebook",
    "_system",
    "_viewing",
    "compiling",
    "errors",
    "figure_files",
    "files",
    "hdf5_files",
    "json_files",
    "links",
    "jit",
    "options",
    "poses",
    "units",
}
BASE |= {"_paths", "_tensors", "user_modules", "versions", "yaml_files"}
SENSING = BASE | {"tree", "worlds", "pipeline", "sensors", "cameras"}
ACTING = SENSING | {"suites", "robots", "scenarios", "tasks", "policies"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "jit": set(),
    "poses": set(),
    "units": {"errors"},
    "user_modules": {"errors"},
    "json_files": set(),
    "links": {"errors", "files"},
    "versions": set(),
    "yaml_files": {"json_files"},
    "gymnasium_ids": set(),
    "_notebook": set(),
    "_viewing": set(),
    "_jit_worker": {"_system", "jit"},
    "_arguments": {"_paths", "_tensors", "errors"},
    "_paths": {"errors"},
    "_tensors": {"errors"},
    "_system": {"errors"},
    "options": {"_notebook", "errors"},
    "files": {"_system", "errors"},
    "figure_files": {"errors", "files"},
    "hdf5_files": {"_system", "files"},
    "compiling": {"_system", "errors", "jit"},
    "tree": BASE,
    "worlds": BASE | {"tree"},
    "pipeline": BASE | {"tree", "worlds"},
    "sensors": BASE | {"tree", "worlds", "pipeline"},
    "presets": BASE | {"pipeline", "sensors"},
    "testing": BASE | {"tree", "worlds", "pipeline", "sensors"},
    "ros": SENSING,
    "logs": BASE | {"ros"},
    "fit": BASE | {"tree", "worlds", "pipeline", "sensors", "presets", "logs"},
    "cameras": BASE | {"tree", "worlds", "pipeline", "sensors"},
    "suites": SENSING,
    "robots": SENSING | {"suites"},
    "scenarios": SENSING | {"suites", "robots"},
    "deploy": {"_arguments", "errors", "json_files"},
    "tasks": SENSING | {"suites", "robots", "scenarios", "gymnasium_ids", "deploy"},
    "policies": SENSING | {"suites", "robots", "scenarios", "tasks"},
    "recording": SENSING | {"suites", "robots"},
    "datasets": SENSING | {"suites", "robots", "recording", "ros", "logs"},
    "doctor": SENSING | {"suites", "robots", "fit", "ros", "logs", "deploy"},
    "generation": ACTING | {"recording", "datasets", "entities", "training"},
    "entities": SENSING | {"suites", "robots"},
    "training": ACTING | {"entities", "ros", "deploy"},
    "viewer": ACTING | {"recording", "datasets", "generation"},
    "cli": ACTING
    | {"presets", "fit", "recording", "datasets", "generation", "entities", "training", "viewer"}
    | {"ros", "logs", "deploy", "doctor"},
    "__main__": {"cli"},
}
"""Package or top-level module -> the others that it may import, at the top of a file or inside a function."""
MAY_IMPORT["__init__"] = MAY_IMPORT.keys() - {"__main__", "_jit_worker"}
FACADE_USERS = {
    "cli": "its commands are programs of users",
    "robots": "rig files name sensor types as users do: IMU for sensorium.IMU",
    "entities": "entity sheets name sensor types as users do",
}
"""Packages that may import ``sensorium`` itself, which exports names of all layers -> why."""
HOOKS = {
    ("gymnasium_ids", "tasks"): "Gymnasium imports a task at its first use, by its name as text",
    ("_viewing", "viewer"): "scene.view() and datasets.view() open windows of a layer above them",
    ("worlds", "robots"): "scene.add_robot(model) returns a robot: worlds/scene_robot.py names its class by text",
}
"""The only imports that point upwards -> why."""
MODULE_NAME = re.compile(r"sensorium(\.\w+)+\.?")


def unit_of(file: Path) -> str:
    """Return the package or top-level module that a source file belongs to."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


UNITS = {unit_of(file) for file in FILES}


def imported_names(file: Path) -> Iterator[str]:
    """Yield the dotted names under ``sensorium`` that a file imports or names as text, for a lazy import.

    ``import sensorium as sn`` yields "sensorium" and, for every ``sn.NAME`` in the file, "sensorium.NAME".
    """
    package = ("sensorium", *file.relative_to(SOURCE).parts[:-1])
    facades = set()
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            facades |= {alias.asname or alias.name for alias in node.names if alias.name == "sensorium"}
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE_NAME.fullmatch(node.value):
            yield node.value
        elif isinstance(node, ast.JoinedStr) and ast.unparse(node).startswith(("f'sensorium.{", 'f"sensorium.{')):
            yield "sensorium"  # any of its names
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in facades:
            yield f"sensorium.{node.attr}"


def imported_units(file: Path) -> set[str]:
    """Return the packages and top-level modules that a file imports, itself included; "__init__" is the facade."""
    found = set()
    for name in imported_names(file):
        parts = name.split(".")
        if parts[0] != "sensorium" or parts[1:2] == ["__version__"]:
            continue
        if len(parts) > 1 and parts[1] in UNITS:
            found.add(parts[1])
        elif not name.endswith((".json", ".yaml", ".renderers")):  # names of files, and of a group of entry points
            found.add("__init__")
    return found


def test_every_package_has_a_layer():
    assert MAY_IMPORT.keys() == UNITS, "MAY_IMPORT lists every package and top-level module, and no others"


def test_layers_have_an_order():
    graphlib.TopologicalSorter(MAY_IMPORT).prepare()  # raises CycleError


@pytest.mark.parametrize("unit", sorted(MAY_IMPORT))
def test_imports_point_down(unit):
    allowed = MAY_IMPORT[unit] | {unit} | {target for source, target in HOOKS if source == unit}
    allowed |= {"__init__"} if unit in FACADE_USERS else set()
    wrong = {
        f"{name_of(file)} imports {each}"
        for file in FILES
        if unit_of(file) == unit
        for each in imported_units(file) - allowed
    }
    assert not wrong


def test_only_worlds_names_an_engine():
    """Code above the engines uses the protocols World, CpuWorld and GpuWorld, and asks ``world.is_gpu``."""
    found = {
        f"{name_of(file)}: {node.id}"
        for file in FILES
        if unit_of(file) != "worlds"
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Name) and node.id in ("MujocoWorld", "WarpWorld")
    }
    assert not found


@pytest.mark.parametrize(
    ("code", "units"),
    [
        ("import sensorium.tasks.pick", {"tasks"}),
        ("from sensorium.tasks import Task", {"tasks"}),
        ("from sensorium import tasks, __version__", {"tasks"}),
        ("from sensorium import Scene", {"__init__"}),
        ("from ..tasks import Task", {"tasks"}),
        ("from .. import tasks", {"tasks"}),
        ("from .scene import Scene", {"worlds"}),
        ("def view():\n    from sensorium.viewer import open_viewer", {"viewer"}),
        ("import importlib\nimportlib.import_module('sensorium.viewer.data')", {"viewer"}),
        ("FORMATS = {'rerun': 'sensorium.datasets.export.rerun'}", {"datasets"}),
        ("NAME = f'sensorium.sensors.{name}'", {"sensors"}),
        ("NAME = f'sensorium.{name}'", {"__init__"}),
        ("import sensorium as sn\nsn.tasks.make('pick')", {"__init__", "tasks"}),
        ("FILE = 'sensorium.json'", set()),
    ],
)
def test_layer_check_sees_all_forms_of_import(code, units, monkeypatch):
    monkeypatch.setitem(globals(), "tree_of", lambda file: ast.parse(code))
    assert imported_units(SOURCE / "worlds" / "example.py") == units


def test_importing_is_light():
    heavy = ["numba", "warp", "mujoco_warp", "gymnasium", "h5py", "av", "matplotlib", "tyro", "rich", "viser", "scipy"]
    heavy += ["yaml"]
    code = f"import sys, sensorium; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


# -- public names and docstrings ---------------------------------------------------------------------------------------


@functools.cache
def public_modules() -> list[ModuleType]:
    """Return the packages and modules that have ``__all__``, except those with a leading underscore."""
    names = [module.name for module in pkgutil.walk_packages([str(SOURCE)], "sensorium.") if "._" not in module.name]
    return [sn, *(importlib.import_module(name) for name in names if _declares_all(_file_of(name)))]


def _declares_all(file: Path) -> bool:
    return any(
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" for node in tree_of(file).body
    )


def _file_of(module: str) -> Path:
    path = SOURCE.parent / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def attribute_docstrings(body: list[ast.stmt]) -> set[str]:
    """Return the names that are assigned in a body with a docstring below the assignment."""
    found = set()
    for node, below in itertools.pairwise(body):
        documented = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if documented and isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {ast.unparse(target) for target in targets}
    return found


def documented_constants() -> set[str]:
    """Return the names of all module-level constants that have a docstring."""
    return set().union(*(attribute_docstrings(tree_of(file).body) for file in FILES))


def test_public_names_exist_and_are_documented():
    constants, missing = documented_constants(), []
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type | ModuleType) or inspect.isroutine(value):
                documented = bool(value.__doc__)
            else:
                documented = name in constants or name == "__version__"
            missing += [] if documented else [f"{module.__name__}.{name}"]
    assert not missing


def test_public_names_are_listed_once_and_by_dir():
    for module in public_modules():
        assert len(set(module.__all__)) == len(module.__all__), module.__name__
        assert set(module.__all__) <= set(dir(module)), f"dir({module.__name__}) lists all public names"


def test_modules_classes_and_functions_have_docstrings():
    missing = []
    for file in FILES:
        body = tree_of(file).body
        public = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_"]
        missing += [] if ast.get_docstring(tree_of(file)) else [name_of(file)]
        missing += [
            f"{name_of(file)}: {node.name}"
            for node in public
            if not ast.get_docstring(node) and "overload" not in map(ast.unparse, node.decorator_list)
        ]
    assert not missing


def test_public_methods_have_docstrings():
    """Every public method of a public class has a docstring: its own, inherited, or that of a protocol's method."""
    classes = {
        value
        for module in public_modules()
        for name in module.__all__
        if isinstance(value := getattr(module, name), type)
    }
    protocols = [cls for cls in classes if getattr(cls, "_is_protocol", False)]
    declared_by_protocols = {name for cls in protocols for name, member in vars(cls).items() if member.__doc__}
    missing = set()
    for cls in classes:
        for name, member in vars(cls).items():
            is_method = isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)
            if is_method and name[0] != "_" and not inspect.getdoc(getattr(cls, name)):
                missing |= (
                    {f"{cls.__module__}.{cls.__qualname__}.{name}"} if name not in declared_by_protocols else set()
                )
    assert not missing


def test_every_option_has_a_docstring():
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and issubclass(value, sn.Options):
                bases = [base for base in value.__mro__ if issubclass(base, sn.Options)]
                missing = value.model_fields.keys() - set().union(*map(_documented_options, bases))
                assert not missing, f"{name} has options without a docstring: {missing}"


def _documented_options(options: type) -> set[str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(options))).body
    return attribute_docstrings(tree.body)


SHARED_NAMES = {"Policy": "sn.policies.Policy acts in a task, sn.deploy.Policy on a robot"}
"""Names of public classes that two modules may define -> why."""


def test_class_names_are_unique():
    places = defaultdict(list)
    for file in FILES:
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                places[node.name].append(name_of(file))
    shared = {name: files for name, files in places.items() if len(files) > 1 and name not in SHARED_NAMES}
    assert not shared, "one class name, one meaning: rename the less public class"


# -- documentation -----------------------------------------------------------------------------------------------------

CODE = re.compile(r"```python\n(.*?)```|(?<!`)`([^`\n]+)`(?!`)", re.DOTALL)
"""Python blocks and inline code of a page."""
DOTTED = re.compile(r"(?<![\w./-])(?:sn|sensorium)((?:\.[A-Za-z_]\w*)+)(?![\w/])")
FROM_IMPORT = re.compile(r"from (sensorium[\w.]*) import ([\w, ]+)")
NO_NAMES = {".json", ".yaml", ".renderers"}
"""Ends of file names, such as ``sensorium.json``, and of the name of a group of entry points."""


def names_in(page: Path) -> set[str]:
    """Return the dotted names below ``sensorium`` in the code of a page: ".datasets.open"."""
    found = set()
    for block, inline in CODE.findall(page.read_text(encoding="utf-8")):
        code = block or inline
        found |= set(DOTTED.findall(code)) - NO_NAMES
        for module, names in FROM_IMPORT.findall(code):
            found |= {f"{module.removeprefix('sensorium')}.{name.strip()}" for name in names.split(",")}
    return found


def is_public(dotted: str) -> bool:
    """Return whether a name is reached through names of ``__all__`` and attributes without a leading underscore."""
    value: object = sn
    for name in dotted.removeprefix(".").split("."):
        if isinstance(value, ModuleType):
            if name not in getattr(value, "__all__", ()):
                try:
                    value = importlib.import_module(f"{value.__name__}.{name}")
                except ImportError:
                    return False
                if name[0] == "_" or not hasattr(value, "__all__"):
                    return False
                continue
        elif name[0] == "_" or not isinstance(value, type):
            return name[0] != "_"
        elif name in getattr(value, "model_fields", ()) or any(name in inspect.get_annotations(c) for c in value.mro()):
            return True  # an option or an attribute of instances
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_documentation_names_only_public_things(page):
    assert not {f"sensorium{name}" for name in names_in(page) if not is_public(name)}


def test_architecture_names_files_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = [code for _, code in CODE.findall(text) if re.fullmatch(r"[\w./-]*(/[\w.-]*|\.(py|md|toml))", code)]
    assert len(paths) > 100, "the pattern finds the paths"
    missing = {path for path in paths if not (SOURCE / path).exists() and not (ROOT / path).exists()}
    assert not missing


def test_contributing_names_files_tests_and_constants_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    codes = [code for _, code in CODE.findall(text)]
    paths = {code for code in codes if re.fullmatch(r"(?:src|tests|docs|benchmarks|script|examples)/[\w./-]*", code)}
    assert not {path for path in paths if not re.search(r"NAME|FAMILY|EXTRA", path) and not (ROOT / path).exists()}
    names = {code for code in codes if re.fullmatch(r"test_\w+|_?[A-Z]{3,}[A-Z_]*", code)} - {"FAMILY", "EXTRA"}
    assert len(paths) > 20
    assert len(names) > 5
    sources = "\n".join(file.read_text(encoding="utf-8") for file in [*FILES, *(ROOT / "tests").glob("*.py")])
    assert not {name for name in names if not re.search(rf"^(?:def )?{name}\b", sources, re.MULTILINE)}


# -- size and wording --------------------------------------------------------------------------------------------------

MAX_LINES, MAX_LINES_WITH_REASON = 400, 500
MAX_ANY = 100
"""How often ``: Any`` may stand in the package. Lower it when there are fewer."""
WORDS = re.compile(
    r"\b(?:data sets?|check sums?|be it as|comes? loose|(?-i:(?<!there )is none)|to be had|what was so|though it be|"
    r"tells again|nobody|anybody|whoever|mend(?:s|ed|ing)?|instants a second|lateness|late by|left alone|not looked at|"
    r"that says? so|lest|however often|nothing but|as things are|is told what|what (?:it )?was told|to its end|"
    r"takes? (?:it|them) for|more than the image is rendered|(?:is|are|was|were) left out|unless told otherwise)\b|"
    r"\balike(?=[.,;:])|"
    r", for (?:it|they|there|this|that|these|we) (?:is|are|was|were|ha[sd]|have|would|will|can|could|do|may|must)\b",
    re.IGNORECASE,
)
"""Wording that the project does not use; CONTRIBUTING.md lists the words to use instead."""
WORDS_IN_DOCS = re.compile(rf"{WORDS.pattern}|\bis none\b", re.IGNORECASE)
BOUNDS = re.compile(
    r"must (?:be (?:at (?:least|most) [\d{]|(?:greater|less|larger|smaller) than|positive(?! definite))|"
    r"not (?:be negative|exceed))"
)
"""Wording of bounds in error messages; write "must be >= 1", "must be <= delay"."""
WORDED_BOUNDS = {"tasks/nav.py"}
"""Files that may have bounds in words."""


def test_files_are_short():
    """Files have at most 400 lines, or 500 where the docstring says why ("lines:" and the reason)."""
    long = []
    for file in FILES:
        count = len(file.read_text(encoding="utf-8").splitlines())
        excused = re.search(r"\blines\b", ast.get_docstring(tree_of(file)) or "")
        if count > (MAX_LINES_WITH_REASON if excused else MAX_LINES):
            long.append(f"{name_of(file)}: {count} lines")
    assert not long


def test_slow_tests_of_the_list_exist():
    names = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()
    assert names == sorted(set(names))
    texts = (file.read_text(encoding="utf-8") for file in (ROOT / "tests").glob("test_*.py"))
    functions = {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}  # files share tests
    for name in names:
        file, *_, function = re.sub(r"\[.*", "", name).split("::")
        assert (ROOT / file).is_file(), name
        assert function in functions, name


def test_any_is_rare():
    count = sum(len(re.findall(r":\s*Any\b", file.read_text(encoding="utf-8"))) for file in FILES)
    assert count <= MAX_ANY, f"{count} times ': Any'; use real types, Protocols, TypeVars or object"


def prose_of(file: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the comments and texts of a source file, or of the whole page of a Markdown file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", None)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            yield from enumerate(token.string.splitlines(), token.start[0])


def test_bounds_in_error_messages_are_signs():
    found = [
        f"{name_of(file)}:{line}: {hit.group(0)}"
        for file in FILES
        if name_of(file) not in WORDED_BOUNDS
        for line, text in prose_of(file)
        for hit in BOUNDS.finditer(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("part", ["docs", *sorted(UNITS)])
def test_wording(part):
    files, words = [file for file in FILES if unit_of(file) == part], WORDS
    if part == "docs":
        files, words = [*DOCS, ROOT / "CHANGELOG.md"], WORDS_IN_DOCS
    found = [
        f"{file.relative_to(ROOT)}:{line}: {hit.group(0)}"
        for file in files
        for line, text in prose_of(file)
        for hit in words.finditer(text)
    ]
    assert not found, "\n".join(found)
