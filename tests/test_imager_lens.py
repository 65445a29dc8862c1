"""Lens distortion, overscan margins, chromatic aberration and vignette, compared with closed forms."""

import math

import numpy as np
import pytest
import torch
from imager_images import BROWN, HEIGHT, WIDTH, gray, intrinsics, make, measure, random_truth, to_code, to_linear

import sensorium as sn
from sensorium.cameras.imager import CameraProfile, Intrinsics
from sensorium.cameras.imager.lens import NO_MARGINS

PINCUSHION = {"k1": 0.15, "k2": 0.02}
FISHEYE = {"projection": "fisheye", "k1": 0.03, "k2": -0.01, "k3": 0.004, "k4": -0.001}


def opencv_distort(options, x, y):
    """Return the distorted coordinates by the formulas of OpenCV's manual."""
    k1, k2, k3, k4, p1, p2 = (options.get(name, 0.0) for name in ("k1", "k2", "k3", "k4", "p1", "p2"))
    r = math.hypot(x, y)
    if options.get("projection") == "fisheye":
        t = math.atan(r)
        radius = t * (1 + k1 * t**2 + k2 * t**4 + k3 * t**6 + k4 * t**8)
        return (x * radius / r, y * radius / r) if r else (0.0, 0.0)
    radial = 1 + k1 * r**2 + k2 * r**4 + k3 * r**6
    new_x = x * radial + 2 * p1 * x * y + p2 * (r**2 + 2 * x * x)
    return new_x, y * radial + p1 * (r**2 + 2 * y * y) + 2 * p2 * x * y


def dot(x, y, size=(WIDTH, HEIGHT), sigma=2.0):
    """Return an image of a soft grey dot at (x, y), in pixels from the image's corner."""
    columns, rows = np.arange(size[0]) + 0.5, np.arange(size[1])[:, None] + 0.5
    light = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * sigma**2))
    return torch.from_numpy(to_code(light).astype(np.uint8))[None, :, :, None].expand(1, -1, -1, 3).contiguous()


def centroid(image, channel=1):
    light = to_linear(image[0, :, :, channel])
    rows, columns = np.mgrid[0 : light.shape[0], 0 : light.shape[1]] + 0.5
    return (light * columns).sum() / light.sum(), (light * rows).sum() / light.sum()


@pytest.mark.parametrize("options", [BROWN, PINCUSHION, FISHEYE], ids=["brown", "pincushion", "fisheye"])
@pytest.mark.parametrize("point", [(80, 60), (110, 60), (80, 95), (40, 30), (125, 88), (30.3, 90.7)])
def test_dot_is_at_the_position_of_the_distortion_formula(options, point):
    x, y = opencv_distort(options, (point[0] - 80) / 100, (point[1] - 60) / 100)
    seen = centroid(measure(CameraProfile(**options), dot(*point)))
    # a dot of finite size is distorted too: its centroid moves by sigma² times the second derivative
    assert seen == pytest.approx((100 * x + 80, 100 * y + 60), abs=0.07)


def test_dot_on_the_axis_does_not_move():
    image = dot(80, 60)
    seen = measure(CameraProfile(k1=-0.3, k2=0.1), image)
    assert centroid(seen) == pytest.approx((80, 60), abs=1e-6)


def test_barrel_distortion_bends_lines_off_the_axis_only():
    image = torch.zeros(1, HEIGHT, WIDTH, 3, dtype=torch.uint8)
    image[:, 59:61] = image[:, 20:22] = 255
    seen = to_linear(measure(CameraProfile(k1=-0.2), image)[0, :, 20:140, 1])  # all columns within the rendered image
    rows = np.arange(HEIGHT)[:, None] + 0.5
    upper, middle = slice(15, 40), slice(50, 70)
    line = (seen[upper] * rows[upper]).sum(0) / seen[upper].sum(0)
    straight = (seen[middle] * rows[middle]).sum(0) / seen[middle].sum(0)
    assert np.abs(straight - 60).max() < 0.01
    assert line[10] - line[60] > 1.0  # barrel: the ends of the line bend towards the centre
    assert line[10] == pytest.approx(line[109], abs=0.05)


def test_all_outputs_are_distorted_equally():
    """Ids, depth and colour of one pattern agree behind the lens, except at the edges of the pattern."""
    squares = (torch.arange(HEIGHT)[:, None] // 20 * 8 + torch.arange(WIDTH) // 20).int()[None]
    truth = {
        "rgb": (squares * 5).to(torch.uint8)[..., None].expand(-1, -1, -1, 3).contiguous(),
        "depth": 1 + squares.float(),
        "segmentation": torch.stack([squares, squares + 100], -1),
        "normals": squares.float()[..., None].expand(-1, -1, -1, 3).contiguous(),
    }
    out = {name: torch.zeros_like(image) for name, image in truth.items()}
    make(CameraProfile(**FISHEYE)).apply(truth, out, 0)
    seen = out["segmentation"][..., 0] >= 0
    ids = out["segmentation"][..., 0][seen]
    assert seen.float().mean() > 0.7
    assert torch.equal(out["segmentation"][..., 1][seen], ids + 100)
    assert torch.equal(out["depth"][seen], 1 + ids.float())
    assert torch.equal(out["normals"][seen], ids.float()[:, None].expand(-1, 3))
    mixed = (out["rgb"][seen] != (ids * 5).to(torch.uint8)[:, None]).any(-1)
    assert mixed.float().mean() < 0.15  # bilinear edges of squares of 20 pixels
    assert not torch.equal(ids, squares[seen])


def test_pixels_beyond_the_rendered_image_are_empty():
    truth = {name: image.clone() for name, image in random_truth().items()}
    truth["rgb"].fill_(200)
    truth["segmentation"].fill_(3)
    out = {name: torch.zeros_like(image) for name, image in truth.items()}
    make(CameraProfile(k1=-0.2, k2=0.05)).apply(truth, out, 0)
    outside = out["segmentation"][..., 0] == -1
    assert outside[0, 0, 0]
    assert outside[0, -1, -1]
    assert not outside[0, 60, 80]
    assert (out["rgb"][outside] == 0).all()
    assert (out["rgb"][~outside] == 200).all()
    assert torch.isinf(out["depth"][outside]).all()
    assert torch.isfinite(out["depth"][~outside]).all()
    assert (out["normals"][outside] == 0).all()
    ranged = measure(CameraProfile(k1=-0.2, k2=0.05, max_range=9.0), truth["depth"], "depth")
    assert (ranged[outside] == 0).all()


@pytest.mark.parametrize("options", [BROWN, FISHEYE, {"chromatic_aberration": (-0.01, 0.02)}])
def test_overscan_margins_cover_what_the_lens_sees(options):
    profile = CameraProfile(**options)
    margins = profile.overscan(intrinsics(), (WIDTH, HEIGHT))
    assert margins.left > 0
    assert margins.bottom > 0
    size = (WIDTH + margins.left + margins.right, HEIGHT + margins.top + margins.bottom)
    assert (measure(profile, gray(77, size=size), margins=margins) == 77).all()
    tight = margins._replace(left=margins.left - 2)
    assert (measure(profile, gray(77, size=(size[0] - 2, size[1])), margins=tight) != 77).any()
    # with and without margins, the image is the same where both see the scene
    wide = torch.randint(0, 256, (1, size[1], size[0], 3), dtype=torch.uint8)
    crop = wide[:, margins.top : margins.top + HEIGHT, margins.left : margins.left + WIDTH].contiguous()
    with_margins, without = measure(profile, wide, margins=margins), measure(profile, crop)
    middle = (slice(None), slice(30, 90), slice(40, 120))
    assert torch.equal(with_margins[middle], without[middle])


def test_overscan_of_a_wide_fisheye_is_limited():
    profile = CameraProfile(projection="fisheye")
    margins = profile.overscan(intrinsics(fx=20.0, fy=20.0), (WIDTH, HEIGHT), limit=0.5)
    assert margins == (80, 60, 80, 60)
    assert CameraProfile().overscan(intrinsics(), (WIDTH, HEIGHT)) == NO_MARGINS


def test_margins_without_a_lens_are_cropped():
    wide = torch.randint(0, 256, (1, HEIGHT + 6, WIDTH + 10, 3), dtype=torch.uint8)
    seen = measure(CameraProfile(), wide, margins=NO_MARGINS._replace(left=7, right=3, top=1, bottom=5))
    assert torch.equal(seen, wide[:, 1:-5, 7:-3])


def test_intrinsics_can_differ_per_env_and_change():
    options = {**BROWN, "vignette": 0.7}
    image = random_truth(1)["rgb"]
    given = Intrinsics(
        torch.tensor([100.0, 140.0]), torch.full((2,), 100.0), torch.full((2,), 80.0), torch.full((2,), 60.0)
    )
    imager = make(CameraProfile(**options), given=given, n_envs=2)
    out = {"rgb": torch.zeros(2, HEIGHT, WIDTH, 3, dtype=torch.uint8)}
    imager.apply({"rgb": image.repeat(2, 1, 1, 1)}, out, 0)
    for env, fx in enumerate((100.0, 140.0)):
        alone = measure(CameraProfile(**options), image, given=intrinsics(fx=fx))
        assert torch.equal(out["rgb"][env], alone[0])
    given.fx[0] = 140.0
    imager.apply({"rgb": image.repeat(2, 1, 1, 1)}, out, 0)
    assert torch.equal(out["rgb"][0], out["rgb"][1])


@pytest.mark.parametrize("options", [{}, BROWN, FISHEYE], ids=["none", "brown", "fisheye"])
def test_rays_invert_the_distortion(options):
    x, y = CameraProfile(**options).rays(intrinsics(), (WIDTH, HEIGHT))
    assert x.shape == (1, HEIGHT, WIDTH)
    for column, row in ((0, 0), (30, 100), (80, 60), (159, 59)):
        seen = opencv_distort(options, float(x[0, row, column]), float(y[0, row, column]))
        assert seen == pytest.approx(((column + 0.5 - 80) / 100, (row + 0.5 - 60) / 100), abs=1e-6)
    folded, _ = CameraProfile(k1=-0.4).rays(intrinsics(), (WIDTH, HEIGHT))
    assert torch.isnan(folded[0, 0, 0])  # r (1 - 0.4 r²) never reaches 1
    assert torch.isfinite(folded[0, 60]).any()


def test_chromatic_aberration_magnifies_red_and_blue():
    seen = measure(CameraProfile(chromatic_aberration=(0.05, -0.04)), dot(110, 40))
    assert centroid(seen, 0) == pytest.approx((80 + 30 * 1.05, 60 - 20 * 1.05), abs=0.05)
    assert centroid(seen, 1) == pytest.approx((110, 40), abs=0.05)
    assert centroid(seen, 2) == pytest.approx((80 + 30 * 0.96, 60 - 20 * 0.96), abs=0.05)


@pytest.mark.parametrize("part", [0.3, 1.0])
def test_vignette_follows_the_cos4_law(part):
    seen = measure(CameraProfile(vignette=part), gray(230))[0, :, :, 1].numpy()
    rows, columns = (np.mgrid[0:HEIGHT, 0:WIDTH] + 0.5 - np.array([60, 80])[:, None, None]) / 100
    cosine = 1 / np.sqrt(1 + rows**2 + columns**2)
    light = to_linear(230) * (1 - part * (1 - cosine**4))
    assert np.abs(seen - to_code(light)).max() <= 1  # rounding of halves
    assert (seen == to_code(light)).mean() > 0.98


def test_lens_in_place_raises():
    image = gray(10)
    with pytest.raises(sn.OptionError, match="in place"):
        make(CameraProfile(k1=-0.1)).apply({"rgb": image}, {"rgb": image}, 0)
