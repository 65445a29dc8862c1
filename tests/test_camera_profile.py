"""Camera profiles: named ones, files, and invalid options."""

import json
import math
import subprocess
import sys

import pytest
import torch
from imager_images import intrinsics, make, measure, random_truth

import sensorium as sn
from sensorium.cameras import CameraProfile


@pytest.mark.parametrize("name", ["rgbd", "action", "machine_vision"])
def test_named_profiles_can_be_saved_loaded_and_applied(name, tmp_path):
    profile = CameraProfile.named(name)
    assert name in CameraProfile.names()
    assert len(profile.description) > 100
    profile.save(tmp_path / "own.json")
    assert CameraProfile.load(tmp_path / "own.json") == profile
    truth = random_truth()
    out = {key: torch.zeros_like(image) for key, image in truth.items()}
    make(profile).apply(truth, out, 0)
    assert not torch.equal(out["rgb"], truth["rgb"])
    assert torch.equal(out["depth"], truth["depth"]) == (name == "machine_vision" and not profile.distorts)


def test_rgbd_profile_meets_its_published_figures():
    """At 640 x 480 and 58 degrees: error below 2% at 2 m, no reading below 0.28 m."""
    focal = 240 / math.tan(math.radians(29))
    given = intrinsics(fx=focal, fy=focal, cx=320, cy=240)
    seen = measure(CameraProfile.named("rgbd"), torch.full((1, 480, 640), 2.0), "depth", given=given)
    error = seen[seen > 0] - 2
    assert 0.004 < error.square().mean().sqrt() / 2 < 0.02
    near = measure(CameraProfile.named("rgbd"), torch.full((1, 480, 640), 0.25), "depth", given=given)
    assert (near == 0).all()


def test_aperture_radius():
    assert CameraProfile(focal_length=0.008, f_number=4.0).aperture_radius == pytest.approx(0.001)
    assert CameraProfile().aperture_radius == 0


def test_unknown_names_raise_with_a_suggestion():
    with pytest.raises(sn.SensoriumError, match="did you mean 'rgbd'"):
        CameraProfile.named("rgb")
    with pytest.raises(sn.SensoriumError, match="machine_vision"):
        CameraProfile.named("zzzz")
    with pytest.raises(sn.OptionError, match="did you mean 'vignette'"):
        CameraProfile(vignete=0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"p1": 0.1, "projection": "fisheye"}, "p1 and p2"),
        ({"k4": 0.1}, "k4 needs"),
        ({"read_noise": 2.0}, "needs full_well"),
        ({"f_number": 2.0}, "needs focal_length"),
        ({"motion_blur": 4}, "needs exposure_time"),
        ({"disparity_noise": 0.1}, "disparity_noise needs baseline"),
        ({"disparity_step": 0.1}, "disparity_step needs baseline"),
        ({"stereo_shadow": True}, "stereo_shadow needs baseline"),
        ({"min_range": 2.0, "max_range": 1.0}, "max_range"),
        ({"jpeg_quality": 101}, "jpeg_quality"),
        ({"white_balance": (1.0, 0.0, 1.0)}, "white_balance"),
        ({"chromatic_aberration": (-0.6, 0.0)}, "chromatic_aberration"),
        ({"vignette": math.nan}, "vignette"),
        ({"projection": "mirror"}, "projection"),
    ],
)
def test_invalid_options_are_named(options, words):
    with pytest.raises(sn.OptionError, match=words):
        CameraProfile(**options)


@pytest.mark.parametrize(
    ("text", "words"), [(None, "cannot be read"), ("{", "not JSON"), ("[1]", "JSON object"), ('{"k1": "x"}', "k1")]
)
def test_invalid_files_are_named(tmp_path, text, words):
    path = tmp_path / "profile.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(sn.OptionError, match=words) as error:
        CameraProfile.load(path)
    assert "profile.json" in str(error.value)


def test_saving_to_a_missing_folder_raises(tmp_path):
    with pytest.raises(sn.OptionError, match=r"camera profile: cannot write .*none/own\.json: No such file"):
        CameraProfile(k1=0.1).save(tmp_path / "none" / "own.json")


def test_saved_profile_contains_only_set_options(tmp_path):
    CameraProfile(k1=-0.1, white_balance=(1.0, 1.0, 1.2)).save(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text()) == {"k1": -0.1, "white_balance": [1.0, 1.0, 1.2]}


def test_profiles_import_no_heavy_library():
    code = "import sys; from sensorium.cameras.imager.profile import CameraProfile; CameraProfile.named('rgbd')"
    code += "; print([name for name in ('warp', 'numba', 'matplotlib') if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
