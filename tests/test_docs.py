"""Every Python block of README and docs runs as written, and prints what stands below it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS = {"camera_pathtrace.md": "mitsuba"}
"""Pages of what an extra brings along -> the package without which they cannot run."""
BLOCK = re.compile(r"```python\n(.*?)```\n(?:```\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_runs_and_prints_what_is_shown(page, capsys):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name], reason=f"{NEEDS[page.name]} is not installed, which {page.name} is about")
    namespace = {"__name__": "docs"}
    for code, shown in BLOCK.findall(page.read_text()):
        capsys.readouterr()
        exec(compile(code, str(page), "exec"), namespace)
        if shown:
            assert capsys.readouterr().out == shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
