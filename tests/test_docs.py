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


def test_demo_prints_a_table_and_draws_a_picture(tmp_path):
    import subprocess
    import sys

    picture = tmp_path / "sub" / "drop.png"
    command = [sys.executable, ROOT / "examples" / "drop.py", "--out", picture, "--envs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for word in ("env 0 of 3: measured (truth)", "acc z [m/s²]", "height [m]", "yes"):
        assert word in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


def test_the_rover_drives_and_is_drawn(tmp_path):
    import subprocess
    import sys

    command = [sys.executable, ROOT / "examples" / "rover.py", "--out", tmp_path, "--envs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "nearest return" in done.stdout
    assert "(2, 16, 360, 3)" in done.stdout
    for name in ("rover_lidar", "rover_heat", "rover_trace"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
