"""The documentation site: the reference is complete, pages state what is true, and broken links are found.

``script/docs`` builds the site with warnings as errors and checks its links; CI runs it beside the type checks.
"""

import importlib
import re
import sys
from pathlib import Path

import pytest
from numpy.typing import ArrayLike, DTypeLike

import sensorium as sn
from sensorium import cli

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module", autouse=True)
def _site_on_path():
    pytest.importorskip("myst_nb", reason="the site needs the extra docs")
    sys.path.insert(0, str(DOCS))
    yield
    sys.path.remove(str(DOCS))


def site(module: str):
    """Return a module of docs/_site."""
    return importlib.import_module(f"_site.{module}")


def test_every_public_name_is_on_one_page_of_the_reference():
    pages = [file.read_text(encoding="utf-8") for file in sorted((DOCS / "api").glob("*.rst"))]
    found = [part for page in pages for part in re.findall(r"\.\. api:: ([\w.]+)\n(?:   :names: (.*)\n)?", page)]
    names = [f"{module}.{name}" for module, names in found for name in names.split()]
    whole = {module for module, names in found if not names}
    names += [name for name in site("names").documented() if name.rpartition(".")[0] in whole]
    assert sorted(names) == sorted(site("names").documented())


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("sensorium.sensors.robot.imu.IMU", "sensorium.IMU"),
        ("sensorium.worlds.Scene.step", "sensorium.Scene.step"),
        ("sensorium.suites.SensorSuite", "sensorium.SensorSuite"),
        ("sensorium.pipeline.SensorGroup", "sensorium.pipeline.SensorGroup"),
        ("sensorium.worlds.scene.snapshot", None),
        ("sensorium.nothing.at.all", None),
    ],
)
def test_names_resolve_to_the_documented_one(path, name):
    assert site("names").resolve(path) == name


def test_constants_have_the_docstring_below_them():
    assert "renderer" not in " ".join(site("names").constant_docstring("MATERIALS"))
    assert site("names").constant_docstring("CAMERA_VIEWS")
    assert "may nest" in " ".join(
        site("names").constant_docstring("Arrays", "sensorium.suites")
    )  # others are elsewhere


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("Latency from capture to arrival, s. A read at t returns the youngest sample.", "s"),
        ("Imperfections of the accelerometer, m/s².", "m/s²"),
        ("Mass in kg. Default: volume times density.", "kg"),
        ("Full extent along x, y and z in metres.", "m"),
        ("Random extra latency, s: drawn once per sample.", "s"),
        ("Radius in metres of a vertical cylinder.", "m"),
        ("Joint positions after a reset, rad or m. Grippers: the open positions.", "rad or m"),
        ("Whether the shape takes part in collisions.", ""),
        ("Probability that a sample is lost. It takes 3 s.", ""),
    ],
)
def test_unit_of_an_option_is_read_from_its_description(text, unit):
    assert site("options").unit_of(text) == unit


def test_table_of_options_lists_each_option_once_with_type_unit_and_default():
    lines = list(site("options").table(sn.IMU))
    rows = [line for line in lines if re.match(r"   \* - ``", line)]
    assert len(rows) == len(sn.IMU.model_fields)
    start = lines.index("   * - ``delay``")
    assert lines[start + 1 : start + 4] == ["     - ``float``", "     - s", "     - ``0.0``"]
    start = lines.index("   * - ``link``")
    assert lines[start + 3] == "     - required"
    assert sum("Options of :class:" in line for line in lines) == 3  # SensorOptions, ChannelOptions, Mounted


@pytest.mark.parametrize(
    ("options", "name", "annotation"),
    [
        (sn.Camera, "quality", "Literal['fast', 'balanced', 'high'] | None"),  # an alias of a Literal
        (sn.Imperfections, "noise", "float | tuple[float, ...]"),  # an alias with a validator
        (sn.IMU, "acc", "AxisImperfections"),
        (sn.Lidar, "no_hit", "float | None"),
    ],
)
def test_aliases_in_types_of_options_are_spelled_out(options, name, annotation):
    assert site("options").annotation_of(options, name) == annotation


def test_signatures_have_no_expanded_aliases_and_no_objects_without_a_literal():
    from sphinx.util.typing import stringify_annotation

    shorten = site("api")._shorten_signature
    array, dtype = (stringify_annotation(alias, "smart") for alias in (ArrayLike, DTypeLike))
    given = f"(pos: {array} | None = None, dtype: {dtype} = <class 'numpy.float32'>, progress=<function <lambda>>)"
    shown = "(pos: ~numpy.typing.ArrayLike | None = None, dtype: ~numpy.typing.DTypeLike = numpy.float32, progress=...)"
    assert shorten(None, "method", "", len, None, given, None) == (shown, "")
    assert shorten(None, "class", "", sn.IMU, None, "(link: str)", None) == ("(**options)", "")


def test_docstrings_of_properties_keep_their_colons():
    from sphinx.ext.napoleon import Config, GoogleDocstring

    lines = ["Messages per second: the inverse of the median interval."]
    site("api")._protect_colons(None, "property", "", None, None, lines)
    config = Config(napoleon_use_param=True, napoleon_use_rtype=True)
    shown = GoogleDocstring(lines, config, what="property", name="rate").lines()
    assert "Messages per second: the inverse of the median interval." in shown
    assert not any(line.startswith(":type:") for line in shown)


def test_cli_page_lists_every_command_with_its_summary(capsys):
    assert cli.main(["--help"]) == 0
    listed = re.findall(r"• ([\w-]+)(?: \([\w-]+\)\n)? +(.+)", capsys.readouterr().out)
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `sensorium ([\w-]+)` \| (.*?) \|", page, re.MULTILINE) == listed
    assert site("commands").command_names() == [name for name, _ in listed]


@pytest.mark.parametrize(
    ("row", "module", "name"),
    [
        ("recording", "sensorium.recording.folder", "VERSION"),
        ("dataset", "sensorium.datasets.header", "VERSION"),
        ("policy", "sensorium.deploy.contract", "VERSION"),
        ("memory of transitions", "sensorium.entities.memory_files", "FORMAT"),
        ("cluster buffer of transitions", "sensorium.entities.cluster_files", "FORMAT"),
    ],
)
def test_file_formats_page_has_the_current_versions(row, module, name):
    page = (DOCS / "file_formats.md").read_text(encoding="utf-8")
    cells = next(line for line in page.splitlines() if line.startswith(f"| {row} |")).split("|")
    assert cells[4].strip() == str(getattr(importlib.import_module(module), name))


def test_check_links_reports_broken_and_foreign_links(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "site.css").write_text("@font-face { src: url('https://fonts.example/a.woff') }")
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="missing.html">3</a>'
        '<a href="https://example.org">4</a><script src="https://cdn.example/x.js"></script><a href="#top">5</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><img src="no.png"><img src="data:image/png;base64,AA=="></p>')
    assert list(site("check_links").problems(tmp_path)) == [
        "a.html: b.html#gone has no such anchor",
        "a.html: missing.html does not exist",
        "a.html: <script> loads https://cdn.example/x.js",
        "b.html: no.png does not exist",
        "_static/site.css loads https://fonts.example/a.woff",
    ]


def test_links_of_the_readme():
    assert list(site("check_links").readme_problems()) == []


@pytest.mark.slow
def test_commands_of_the_first_dataset_run(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "first_dataset.md").read_text(encoding="utf-8")
    commands = re.findall(r"^sensorium (.*)$", page, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["generate", "validate", "view", "generate", "export"]
    for command in commands:
        words = command.replace("--episodes 4", "--episodes 1").split()
        if words[0] == "generate":
            words += ["--resolution", "96", "64"]
        if words[0] != "view":  # runs until Ctrl-C; tests/test_view_data.py tests it
            assert cli.main(words) == 0, capfd.readouterr().err
