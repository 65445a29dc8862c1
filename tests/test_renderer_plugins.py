"""Renderers of other packages, outputs that a renderer lacks, and subclasses of ``CameraSensor``."""

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch
from camera_scenes import build_room, front, room
from gl import needs_gl

import sensorium as sn
from sensorium.cameras import CameraSensor, registry

PAGE = (Path(__file__).parent.parent / "docs" / "cameras.md").read_text()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a package with a renderer, as pip does: a module and its ``.dist-info``."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.syspath_prepend(tmp_path)

    def add(package, entry_points, **modules):
        for name, code in modules.items():
            (tmp_path / f"{name}.py").write_text(code)
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(entry_points)
        importlib.invalidate_caches()

    before = set(sys.modules)
    yield add
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def documented_plugin():
    """Return the module and the entry points of the renderer in docs/cameras.md."""
    code = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class Silhouette" in block)
    table = next(block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "silhouette" in block)
    group, line = re.fullmatch(r'\[project\.entry-points\."(.*?)"\]\n(.*)\n', table).groups()
    return code, f"[{group}]\n{line.replace(chr(34), '')}\n"


def test_documented_renderer_is_found_by_its_entry_point(install):
    with pytest.raises(sn.OptionError, match=r"renderer must be one of 'auto', 'raster', .* got 'silhouette'"):
        front(renderer="silhouette")
    code, entry_points = documented_plugin()
    install("silhouette", entry_points, silhouette=code)
    view = {"resolution": (48, 36), "lookat": (3, 2, 3.5)}  # over the corner of the wall
    camera = front(renderer="silhouette", **view)
    assert "silhouette" not in sys.modules
    scene, camera, other = build_room(camera, front(uuid="ids", outputs=("segmentation",), **view))
    scene.step()
    white = camera.read().rgb[..., 0] == 255
    assert bool(white.any())
    assert not bool(white.all())
    differs = white != (other.read().segmentation[..., 0] >= 0)
    assert float(differs.float().mean()) < 0.01  # at edges
    assert str(camera.renderer_choice) == "silhouette (set by the camera's options: ray casting)"


def test_several_packages_with_one_name_and_broken_packages(install):
    code, entry_points = documented_plugin()
    install("first", entry_points, silhouette=code)
    install("second", entry_points)
    with pytest.raises(sn.OptionError, match="'silhouette' exists in several packages: 'first', 'second'; uninstall"):
        front(renderer="silhouette")
    install(
        "broken",
        "[sensorium.renderers]\ngone = no_such_module:Gone\nlost = half:Lost\nhalf = half:Half\n",
        half="class Half:\n    name = 'half'\n    outputs = frozenset()\n",
    )
    with pytest.raises(sn.OptionError, match="did you mean 'half'"):
        front(renderer="haf")
    for name, error, message in (
        ("gone", sn.DeviceError, "No module named 'no_such_module'; to fix it: reinstall the package 'broken'"),
        ("lost", sn.DeviceError, "has no attribute 'Lost'"),
        ("half", sn.OptionError, "half.Half lacks max_resolution, missing, build, render, close"),
    ):
        scene = room()
        scene.add_sensor(front(renderer=name))
        with pytest.raises(error, match=message):
            scene.build()


def test_installed_package_cannot_replace_a_renderer(install):
    install("other", "[sensorium.renderers]\nraster = silhouette:SilhouetteRenderer\n")
    registry.check_renderer("raster")
    assert registry._REGISTRY["raster"].module == "sensorium.cameras.raster"


@pytest.mark.parametrize(
    ("output", "why"),
    [("depth", "'depth'"), ("points", "'points', which is computed from 'depth'"), ("normals", "'normals', which")],
)
def test_missing_output_is_named_at_build(install, output, why):
    code, entry_points = documented_plugin()
    install("silhouette", entry_points, silhouette=code)
    scene = room()
    scene.add_sensor(front(renderer="silhouette", outputs=("rgb", output)))
    message = rf"Camera\(uuid='front'\).outputs: the renderer 'silhouette' does not provide {why}.* It provides 'rgb'; "
    with pytest.raises(sn.OptionError, match=message):
        scene.build()
    scene, camera = build_room(front(renderer="silhouette"))
    image = camera.read().rgb.clone()
    with pytest.raises(sn.OptionError, match=f"does not provide {why}"):
        getattr(scene, f"enable_{output}_rendering")()
    assert camera.outputs == ("rgb",)
    assert torch.equal(camera.read().rgb, image)


class TrackingCamera(sn.Camera):
    """Options of a camera of a user's own class."""


class TrackingCameraSensor(CameraSensor, options=TrackingCamera):
    """A camera of a user's own class."""


def tracking(**options):
    return TrackingCamera(
        **{"uuid": "track", "pos": (0, 0.5, 1), "lookat": (3, 0, 1), "resolution": (32, 24), "vfov": 60, **options}
    )


@needs_gl
@pytest.mark.parametrize("subclass_first", [False, True])
def test_subclass_shares_the_renderer(subclass_first):
    both = [front(outputs=("rgb", "depth")), tracking(renderer="raster", outputs=("rgb", "depth"))]
    scene, *cameras = build_room(*(both[::-1] if subclass_first else both))
    one, other = cameras
    assert type(one) is not type(other)
    assert one._render_pass is other._render_pass
    assert one._render_pass.cameras == ([one, other])
    scene.step()
    one.read()
    passes = one._render_pass.passes
    other.read()
    assert one._render_pass.passes == passes
    _, alone = build_room(tracking(outputs=("rgb", "depth")))
    alone.group.world.step()
    mine = one if subclass_first else other
    assert torch.equal(mine.read().depth, alone.read().depth)


@needs_gl
def test_timed_cameras_of_a_subclass_are_captured_once():
    timed = {"rate": 50.0, "delay": 0.02}
    scene, base, track = build_room(front(**timed), tracking(**timed))
    apart = [build_room(options)[:2] for options in (front(**timed), tracking(**timed))]
    for step in range(12):
        if step == 7:
            for each in (scene, *(one for one, _ in apart)):
                each.reset(envs=[1])
        for each in (scene, *(one for one, _ in apart)):
            each.step()
        for camera, (_, alone) in zip((base, track), apart, strict=True):
            assert torch.equal(camera.read().rgb, alone.read().rgb), step


@needs_gl
def test_different_renderer_options_of_a_subclass_raise():
    scene = room()
    scene.add_sensor(front(quality="fast"))
    scene.add_sensor(tracking(quality="high"))
    with pytest.raises(sn.OptionError, match="got 'fast' for 'front' and 'high' for 'track'"):
        scene.build()
