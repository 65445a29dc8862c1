"""Every Python block of README and docs runs as written and prints the output that is shown below it."""

import re
import sys
from pathlib import Path

import pytest

import sensorium as sn

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS = {"camera_pathtrace.md": "mitsuba"}
"""Pages about an extra -> the package that their code needs."""
BLOCK = re.compile(r"```python\n(.*?)```\n(?:```\n(.*?)```)?", re.DOTALL)
SLOW = {
    "datasets.md",
    "first_dataset.md",
    "training.md",
    "tensor_tasks.md",
    "04_training.md",
    "05_dataset.md",
    "08_deploy.md",
}


@pytest.fixture
def registered_tasks(monkeypatch):
    """Remove the tasks that a page adds to the catalogue, and the modules that it writes and imports."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    catalogues = (sn.tasks.TASKS, sn.tasks.TENSOR_TASKS)
    before = [dict(catalogue) for catalogue in catalogues]
    yield
    for catalogue, tasks in zip(catalogues, before, strict=True):
        catalogue.clear()
        catalogue.update(tasks)
    sys.modules.pop("point", None)  # of docs/tutorials/05_dataset.md


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page.name in SLOW else []) for page in PAGES],
    ids=lambda page: page.name,
)
def test_code_prints_the_shown_output(page, capsys, registered_tasks):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name], reason=f"{page.name} needs {NEEDS[page.name]}, which is not installed")
    namespace = {"__name__": "docs"}
    for code, shown in BLOCK.findall(page.read_text()):
        capsys.readouterr()
        exec(compile(code, str(page), "exec"), namespace)
        if shown:
            assert capsys.readouterr().out == shown


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_point_to_files_and_headings(page):
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}, heading


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page):
    for file, name in re.findall(r"`(tests/\w+\.py)(?:::(\w+))?`", page.read_text()):
        assert (ROOT / file).exists(), file
        assert not name or re.search(rf"^ *def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"
