"""Lens, imager and compression of cameras, against closed forms and a real JPEG codec."""

import io
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.cameras.imager.exposure import Shutter
from sensorium.cameras.imager.lens import NO_MARGINS, Intrinsics
from sensorium.cameras.imager.profile import CameraProfile

WIDTH, HEIGHT = 160, 120


def intrinsics(n_envs=1, fx=100.0, fy=100.0, cx=80.0, cy=60.0, device="cpu"):
    return Intrinsics(*(torch.full((n_envs,), value, device=device) for value in (fx, fy, cx, cy)))


def make(profile, size=(WIDTH, HEIGHT), given=None, n_envs=1, seed=0, uuid="cam", margins=NO_MARGINS, device="cpu"):
    from sensorium.cameras.imager.imager import Imager

    given = given or intrinsics(n_envs, device=device)
    return Imager(profile, *size, ("rgb", "depth"), given, n_envs, seed, uuid, device, margins)


def measure(profile, image, output="rgb", step=0, **options):
    """One output through a fresh imager; the image is (B, H, W, ...)."""
    size = (image.shape[2], image.shape[1])
    margins = options.get("margins", NO_MARGINS)
    inner = (size[0] - margins.left - margins.right, size[1] - margins.top - margins.bottom)
    out = torch.full((image.shape[0], inner[1], inner[0], *image.shape[3:]), 7, dtype=image.dtype)
    make(profile, inner, n_envs=image.shape[0], **options).apply({output: image}, {output: out}, step)
    return out


def to_linear(code):
    code = np.asarray(code, np.float64) / 255
    return np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)


def to_code(light):
    light = np.clip(light, 0, 1)
    return np.rint(255 * np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055))


def assert_rounded(codes, light):
    """Whether these are the sRGB values of that light; a half may be rounded to either side."""
    exact = 255 * np.where(light <= 0.0031308, light * 12.92, 1.055 * np.clip(light, 1e-9, 1) ** (1 / 2.4) - 0.055)
    assert np.abs(codes - np.clip(exact, 0, 255)).max() < 0.5001


def gray(code, n_envs=1, size=(WIDTH, HEIGHT)):
    return torch.full((n_envs, size[1], size[0], 3), code, dtype=torch.uint8)


def random_truth(n_envs=1, size=(WIDTH, HEIGHT), seed=0):
    rng = torch.Generator().manual_seed(seed)
    shape = (n_envs, size[1], size[0])
    return {
        "rgb": torch.randint(0, 256, (*shape, 3), generator=rng, dtype=torch.uint8),
        "depth": 1 + 3 * torch.rand(shape, generator=rng),
        "segmentation": torch.randint(-1, 40, (*shape, 2), generator=rng, dtype=torch.int32),
        "normals": torch.rand((*shape, 3), generator=rng),
        "instance": torch.randint(-1, 40, shape, generator=rng, dtype=torch.int32),
    }


# -- nothing is changed that was not asked for -------------------------------------------------------------------------


def test_the_empty_profile_changes_no_bit():
    truth = random_truth(2)
    truth["depth"][0, 3, 4] = math.inf
    out = {name: torch.zeros_like(image) for name, image in truth.items()}
    make(CameraProfile(), n_envs=2).apply(truth, out, 5)
    for name, image in truth.items():
        assert torch.equal(out[name], image), name


@pytest.mark.parametrize(
    "options",
    [
        {"exposure_time": 0.01, "motion_blur": 4, "rolling_shutter": 0.01},  # done by several renders
        {"focal_length": 0.004, "f_number": 2.0, "focus_distance": 1.0},  # done by the renderer
        {"iso": 3200.0, "bit_depth": 8},  # of electrons, which are not modelled
        {"baseline": 0.05, "edge_width": 3, "edge_threshold": 0.1},  # of effects that are off
        {"jpeg_subsampling": "4:4:4"},
    ],
)
def test_options_without_an_effect_of_their_own_change_no_bit(options):
    truth = random_truth()
    for name, image in truth.items():
        assert torch.equal(measure(CameraProfile(**options), image, name), image), name


def test_color_effects_leave_depth_alone_and_the_other_way_round():
    truth = random_truth()
    color = CameraProfile(exposure=-1.0, vignette=0.5, full_well=1000, read_noise=3, jpeg_quality=50)
    ranging = CameraProfile(depth_noise=(0.1, 0, 0), baseline=0.05, stereo_shadow=True, edge_dropout=1.0)
    for name in ("depth", "segmentation", "normals", "instance"):
        assert torch.equal(measure(color, truth[name], name), truth[name])
    for name in ("rgb", "segmentation", "normals", "instance"):
        assert torch.equal(measure(ranging, truth[name], name), truth[name])
    assert not torch.equal(measure(color, truth["rgb"]), truth["rgb"])
    assert not torch.equal(measure(ranging, truth["depth"], "depth"), truth["depth"])


def test_every_srgb_value_survives_the_way_through_linear_light():
    image = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16, 1).expand(1, 16, 16, 3).contiguous()
    nearly_nothing = CameraProfile(exposure=1e-7)
    assert torch.equal(measure(nearly_nothing, image), image)


@pytest.mark.parametrize("profile", [CameraProfile(), CameraProfile.named("action"), CameraProfile.named("rgbd")])
@pytest.mark.parametrize("envs", [[1], torch.tensor([False, True, False]), np.array([1]), 1])
def test_other_envs_are_left_alone(profile, envs):
    truth = random_truth(3)
    whole, part = ({name: torch.full_like(image, 9) for name, image in truth.items()} for _ in range(2))
    imager = make(profile, n_envs=3)
    imager.apply(truth, whole, 4)
    imager.apply(truth, part, 4, envs)
    for name, image in part.items():
        assert torch.equal(image[1], whole[name][1]), name
        assert (image[[0, 2]] == 9).all(), name


# -- lens --------------------------------------------------------------------------------------------------------------

BROWN = {"k1": -0.22, "k2": 0.06, "k3": -0.004, "p1": 0.004, "p2": -0.003}
PINCUSHION = {"k1": 0.15, "k2": 0.02}
FISHEYE = {"projection": "fisheye", "k1": 0.03, "k2": -0.01, "k3": 0.004, "k4": -0.001}


def opencv_distort(options, x, y):
    """The formulas of OpenCV's manual."""
    k1, k2, k3, k4, p1, p2 = (options.get(name, 0.0) for name in ("k1", "k2", "k3", "k4", "p1", "p2"))
    r = math.hypot(x, y)
    if options.get("projection") == "fisheye":
        t = math.atan(r)
        bent = t * (1 + k1 * t**2 + k2 * t**4 + k3 * t**6 + k4 * t**8)
        return (x * bent / r, y * bent / r) if r else (0.0, 0.0)
    radial = 1 + k1 * r**2 + k2 * r**4 + k3 * r**6
    new_x = x * radial + 2 * p1 * x * y + p2 * (r**2 + 2 * x * x)
    return new_x, y * radial + p1 * (r**2 + 2 * y * y) + 2 * p2 * x * y


def dot(x, y, size=(WIDTH, HEIGHT), sigma=2.0):
    """A soft dot around (x, y), counted from the image's corner; gray in linear light."""
    columns, rows = np.arange(size[0]) + 0.5, np.arange(size[1])[:, None] + 0.5
    light = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * sigma**2))
    return torch.from_numpy(to_code(light).astype(np.uint8))[None, :, :, None].expand(1, -1, -1, 3).contiguous()


def centroid(image, channel=1):
    light = to_linear(image[0, :, :, channel])
    rows, columns = np.mgrid[0 : light.shape[0], 0 : light.shape[1]] + 0.5
    return (light * columns).sum() / light.sum(), (light * rows).sum() / light.sum()


@pytest.mark.parametrize("options", [BROWN, PINCUSHION, FISHEYE], ids=["brown", "pincushion", "fisheye"])
@pytest.mark.parametrize("point", [(80, 60), (110, 60), (80, 95), (40, 30), (125, 88), (30.3, 90.7)])
def test_a_dot_lands_where_the_formula_says(options, point):
    x, y = opencv_distort(options, (point[0] - 80) / 100, (point[1] - 60) / 100)
    seen = centroid(measure(CameraProfile(**options), dot(*point)))
    # a dot of finite size is bent as well: its centroid moves by sigma² times the second derivative
    assert seen == pytest.approx((100 * x + 80, 100 * y + 60), abs=0.07)


def test_what_lies_on_the_axis_stays():
    image = dot(80, 60)
    seen = measure(CameraProfile(k1=-0.3, k2=0.1), image)
    assert centroid(seen) == pytest.approx((80, 60), abs=1e-6)


def test_a_lens_bends_straight_lines_off_axis_and_not_those_through_it():
    image = torch.zeros(1, HEIGHT, WIDTH, 3, dtype=torch.uint8)
    image[:, 59:61] = image[:, 20:22] = 255
    seen = to_linear(measure(CameraProfile(k1=-0.2), image)[0, :, 20:140, 1])  # all of it within the rendered image
    rows = np.arange(HEIGHT)[:, None] + 0.5
    upper, middle = slice(15, 40), slice(50, 70)
    line = (seen[upper] * rows[upper]).sum(0) / seen[upper].sum(0)
    straight = (seen[middle] * rows[middle]).sum(0) / seen[middle].sum(0)
    assert np.abs(straight - 60).max() < 0.01
    assert line[10] - line[60] > 1.0  # barrel: the line's ends bend towards the middle
    assert line[10] == pytest.approx(line[109], abs=0.05)


def test_all_outputs_move_together():
    """Ids, depth and colour of one pattern agree after the lens, away from the pattern's edges."""
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


def test_beyond_the_rendered_image_there_is_nothing():
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
def test_overscan_renders_what_the_lens_sees(options):
    profile = CameraProfile(**options)
    margins = profile.overscan(intrinsics(), (WIDTH, HEIGHT))
    assert margins.left > 0
    assert margins.bottom > 0
    size = (WIDTH + margins.left + margins.right, HEIGHT + margins.top + margins.bottom)
    assert (measure(profile, gray(77, size=size), margins=margins) == 77).all()
    tight = margins._replace(left=margins.left - 2)
    assert (measure(profile, gray(77, size=(size[0] - 2, size[1])), margins=tight) != 77).any()
    # the same scene, seen with and without margins, is the same where both see it
    wide = torch.randint(0, 256, (1, size[1], size[0], 3), dtype=torch.uint8)
    crop = wide[:, margins.top : margins.top + HEIGHT, margins.left : margins.left + WIDTH].contiguous()
    with_margins, without = measure(profile, wide, margins=margins), measure(profile, crop)
    middle = (slice(None), slice(30, 90), slice(40, 120))
    assert torch.equal(with_margins[middle], without[middle])


def test_overscan_of_a_lens_that_sees_beside_itself_is_limited():
    profile = CameraProfile(projection="fisheye")
    margins = profile.overscan(intrinsics(fx=20.0, fy=20.0), (WIDTH, HEIGHT), limit=0.5)
    assert margins == (80, 60, 80, 60)
    assert CameraProfile().overscan(intrinsics(), (WIDTH, HEIGHT)) == NO_MARGINS


def test_margins_without_a_lens_crop():
    wide = torch.randint(0, 256, (1, HEIGHT + 6, WIDTH + 10, 3), dtype=torch.uint8)
    seen = measure(CameraProfile(), wide, margins=NO_MARGINS._replace(left=7, right=3, top=1, bottom=5))
    assert torch.equal(seen, wide[:, 1:-5, 7:-3])


def test_envs_may_differ_in_intrinsics_and_change_them():
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
def test_rays_of_pixels_are_what_the_lens_puts_there(options):
    x, y = CameraProfile(**options).rays(intrinsics(), (WIDTH, HEIGHT))
    assert x.shape == (1, HEIGHT, WIDTH)
    for column, row in ((0, 0), (30, 100), (80, 60), (159, 59)):
        seen = opencv_distort(options, float(x[0, row, column]), float(y[0, row, column]))
        assert seen == pytest.approx(((column + 0.5 - 80) / 100, (row + 0.5 - 60) / 100), abs=1e-6)
    folded, _ = CameraProfile(k1=-0.4).rays(intrinsics(), (WIDTH, HEIGHT))
    assert torch.isnan(folded[0, 0, 0])  # r (1 - 0.4 r²) is never 1
    assert torch.isfinite(folded[0, 60]).any()


def test_chromatic_aberration_magnifies_red_and_blue():
    seen = measure(CameraProfile(chromatic_aberration=(0.05, -0.04)), dot(110, 40))
    assert centroid(seen, 0) == pytest.approx((80 + 30 * 1.05, 60 - 20 * 1.05), abs=0.05)
    assert centroid(seen, 1) == pytest.approx((110, 40), abs=0.05)
    assert centroid(seen, 2) == pytest.approx((80 + 30 * 0.96, 60 - 20 * 0.96), abs=0.05)


@pytest.mark.parametrize("part", [0.3, 1.0])
def test_vignette_follows_the_fourth_power_of_the_cosine(part):
    seen = measure(CameraProfile(vignette=part), gray(230))[0, :, :, 1].numpy()
    rows, columns = (np.mgrid[0:HEIGHT, 0:WIDTH] + 0.5 - np.array([60, 80])[:, None, None]) / 100
    cosine = 1 / np.sqrt(1 + rows**2 + columns**2)
    light = to_linear(230) * (1 - part * (1 - cosine**4))
    assert np.abs(seen - to_code(light)).max() <= 1  # where rounding is a toss-up
    assert (seen == to_code(light)).mean() > 0.98


# -- exposure and colour -----------------------------------------------------------------------------------------------


def ramp():
    return torch.arange(256, dtype=torch.uint8).reshape(1, 1, 256, 1).expand(1, 4, 256, 3).contiguous()


@pytest.mark.parametrize("stops", [-2.0, -0.5, 1.0, 3.0])
def test_a_stop_doubles_the_light(stops):
    seen = measure(CameraProfile(exposure=stops), ramp())[0, 0, :, 1].numpy()
    assert_rounded(seen, np.clip(to_linear(np.arange(256)) * 2**stops, 0, 1))


def test_white_balance_multiplies_linear_light():
    gains = (1.3, 0.9, 0.6)
    seen = measure(CameraProfile(white_balance=gains), ramp())[0, 0].numpy()
    for channel, gain in enumerate(gains):
        assert_rounded(seen[:, channel], np.clip(to_linear(np.arange(256)) * gain, 0, 1))


def test_the_imager_is_full_before_the_gains():
    seen = measure(CameraProfile(exposure=3.0, white_balance=(0.5, 1.0, 1.0)), gray(200))
    assert seen[0, 0, 0].tolist() == [int(to_code(0.5)), 255, 255]


def test_color_temperature_tints():
    def tint(kelvin):
        red, green, blue = measure(CameraProfile(color_temperature=kelvin), gray(128))[0, 0, 0].tolist()
        assert green == 128
        return red, blue

    assert tint(6500.0) == (128, 128)
    red, blue = tint(3200.0)
    assert red < 100
    assert blue > 160
    red, blue = tint(10000.0)
    assert red > 135
    assert blue < 120
    # tungsten light of 2856 K (illuminant A: x = 0.4476, y = 0.4074) is white to a camera that is set to it
    x, y = 0.44757, 0.40745
    lamp = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]]) @ [
        x / y, 1.0, (1 - x - y) / y
    ]  # fmt: skip
    gains, day = (
        np.array(CameraProfile(color_temperature=2856.0).gains),
        np.array(CameraProfile(color_temperature=6504.0).gains),
    )
    white = lamp * gains / day
    assert white / white[1] == pytest.approx([1, 1, 1], abs=0.07)  # black bodies are not quite daylight


# -- noise -------------------------------------------------------------------------------------------------------------


def electrons(profile, mean, frames=40, size=(64, 64), seed=0):
    """What frames of a light that frees ``mean`` electrons a pixel count, (frames, H, W, 3), in electrons."""
    full = profile.full_well * 100 / profile.iso
    code = int(to_code(mean / full))
    imager = make(profile, size, n_envs=1, given=intrinsics(cx=size[0] / 2, cy=size[1] / 2), seed=seed)
    out = torch.zeros(1, size[1], size[0], 3, dtype=torch.uint8)
    counts = []
    for step in range(frames):
        imager.apply({"rgb": gray(code, size=size)}, {"rgb": out}, step)
        counts.append(to_linear(out[0].numpy()) * full)
    return np.array(counts), float(to_linear(code)) * full


@pytest.mark.parametrize(("read_noise", "iso"), [(0.0, 100.0), (6.0, 100.0), (6.0, 400.0)])
def test_variance_grows_with_the_signal_as_photons_do(read_noise, iso):
    """The photon-transfer curve: variance = signal + read noise², in electrons."""
    profile = CameraProfile(full_well=500 * iso / 100, read_noise=read_noise, iso=iso, bit_depth=14)
    means, variances = [], []
    for level in (25, 60, 120, 200, 300):
        counts, expected = electrons(profile, level)
        assert counts.mean() == pytest.approx(expected, rel=0.004)
        means.append(expected)
        variances.append(counts.var())
    slope, intercept = np.polyfit(means, variances, 1)
    assert slope == pytest.approx(1.0, abs=0.02)
    assert intercept == pytest.approx(read_noise**2, abs=2.5)


def test_iso_trades_light_for_noise():
    deviations = []
    for iso in (100.0, 400.0, 1600.0):
        counts, expected = electrons(CameraProfile(full_well=4000, iso=iso, bit_depth=14), 2000 * 100 / iso)
        assert counts.mean() == pytest.approx(expected, rel=0.005)  # brightness stays
        deviations.append(counts.std() / expected)
    assert deviations[1] / deviations[0] == pytest.approx(2, rel=0.03)
    assert deviations[2] / deviations[1] == pytest.approx(2, rel=0.03)


def test_few_electrons_come_as_poisson_says():
    profile = CameraProfile(full_well=60, bit_depth=14)
    counts, mean = electrons(profile, 5.0)
    whole = np.rint(counts)
    assert np.abs(counts - whole).max() < 0.25  # 8-bit sRGB tells them apart
    for k in range(12):
        expected = math.exp(-mean) * mean**k / math.factorial(k)
        assert (whole == k).mean() == pytest.approx(expected, abs=0.004)


@pytest.mark.parametrize("mean", [15.0, 17.5, 30.0])
def test_moments_are_poissons_on_both_sides_of_the_approximation(mean):
    counts, expected = electrons(CameraProfile(full_well=120, bit_depth=14), mean)
    assert (expected < 16) == (mean < 16)
    assert counts.mean() == pytest.approx(expected, rel=0.005)
    assert counts.var() == pytest.approx(expected, rel=0.02)
    skew = ((counts - counts.mean()) ** 3).mean() / counts.std() ** 3
    assert skew == pytest.approx(expected**-0.5, abs=0.03)


def test_darkness_has_read_noise_alone():
    counts, _ = electrons(CameraProfile(full_well=100, read_noise=4.0, bit_depth=14), 0)
    assert (counts == 0).mean() == pytest.approx(0.5, abs=0.02)  # what is below black is cut off
    assert counts[counts > 0].mean() == pytest.approx(4 * math.sqrt(2 / math.pi), rel=0.05)


def test_converter_has_as_many_steps_as_its_bits_say():
    seen = measure(CameraProfile(full_well=1e9, bit_depth=8), ramp())[0, 0, :, 1].numpy()
    expected = to_code(np.rint(to_linear(np.arange(256)) * 255) / 255)
    assert np.array_equal(seen, expected)  # of 1e9 electrons noise is nothing
    assert len(np.unique(seen[:64])) < 16  # dark values are lost


def test_noise_is_white():
    counts, _ = electrons(CameraProfile(full_well=500), 200, frames=20)
    z = (counts - counts.mean()) / counts.std()
    n = z[0].size
    limit = 5 / math.sqrt(z.size)
    assert n == 64 * 64 * 3
    for other in (z[:, :, 1:] * z[:, :, :-1], z[:, 1:] * z[:, :-1], z[1:] * z[:-1], z[..., 1:] * z[..., :-1]):
        assert abs(other.mean()) < limit
    assert abs((z[..., 0] * z[..., 2]).mean()) < limit * 2


NOISY = CameraProfile(
    full_well=300, read_noise=4, jpeg_quality=70, baseline=0.05, disparity_noise=0.1, edge_dropout=0.5, **BROWN
)


def noisy(n_envs, step=3, seed=0, uuid="cam", profile=NOISY):
    truth = {name: image.repeat(n_envs, *[1] * (image.dim() - 1)) for name, image in random_truth().items()}
    out = {name: torch.zeros_like(image) for name, image in truth.items()}
    make(profile, n_envs=n_envs, seed=seed, uuid=uuid).apply(truth, out, step)
    return out


def test_noise_depends_on_seed_uuid_env_and_step_alone():
    many, one = noisy(3), noisy(1)
    for name in many:
        assert torch.equal(many[name][:1], one[name]), name
    for name in ("rgb", "depth"):
        assert not torch.equal(many[name][1], many[name][0])
        for other in (noisy(1, step=4), noisy(1, seed=1), noisy(1, uuid="eye")):
            assert not torch.equal(other[name], one[name])
    again = noisy(1, step=torch.tensor([3]))
    assert torch.equal(again["rgb"], one["rgb"])


# -- compression -------------------------------------------------------------------------------------------------------


def picture(width=203, height=149):
    """Smooth shades, sharp edges and a texture."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:height, 0:width]
    red = 120 + 80 * np.sin(x / 25) * np.cos(y / 30)
    green = 60 + 0.6 * x + 20 * ((x // 16 + y // 16) % 2)
    blue = 200 - 0.7 * y + 15 * rng.standard_normal((height, width))
    image = np.stack([red, green, blue], -1)
    image[40:90, 60:110] = (230, 30, 40)
    return torch.from_numpy(np.clip(image, 0, 255).astype(np.uint8))[None]


def psnr(a, b):
    return 10 * math.log10(255**2 / np.mean((np.asarray(a, float) - np.asarray(b, float)) ** 2))


@pytest.mark.parametrize("quality", [10, 45, 80, 95])
@pytest.mark.parametrize(("subsampling", "code"), [("4:2:0", 2), ("4:4:4", 0)])
def test_compression_is_a_jpeg_codecs(quality, subsampling, code):
    image_module = pytest.importorskip("PIL.Image")
    image = picture()
    file = io.BytesIO()
    image_module.fromarray(image[0].numpy()).save(file, "JPEG", quality=quality, subsampling=code)
    real = np.asarray(image_module.open(file))
    ours = measure(CameraProfile(jpeg_quality=quality, jpeg_subsampling=subsampling), image)[0].numpy()
    lost = psnr(real, image[0])
    assert psnr(ours, real) > max(lost + 9, 45)  # far nearer to the codec's than either to the original
    assert psnr(ours, image[0]) == pytest.approx(lost, abs=0.1)


def test_compression_loses_more_at_lower_quality():
    image = picture()
    profiles = [CameraProfile(jpeg_quality=q, jpeg_subsampling="4:4:4") for q in (5, 20, 50, 80, 98)]
    losses = [psnr(measure(profile, image), image) for profile in profiles]
    assert losses == sorted(losses)
    assert losses[0] < losses[-1] - 8


# -- depth -------------------------------------------------------------------------------------------------------------


def plane(z, n_envs=1):
    return torch.full((n_envs, HEIGHT, WIDTH), z)


@pytest.mark.parametrize("z", [0.5, 2.0, 5.0])
def test_depth_noise_grows_with_range(z):
    profile = CameraProfile(depth_noise=(0.002, 0.001, 0.0004), disparity_noise=0.05, baseline=0.06)
    seen = measure(profile, plane(z), "depth").numpy()
    sigma = 0.002 + 0.001 * z + 0.0004 * z**2 + 0.05 * z**2 / (100 * 0.06)
    assert seen.std() == pytest.approx(sigma, rel=0.03)
    assert seen.mean() == pytest.approx(z, abs=5 * sigma / math.sqrt(seen.size))


def test_disparity_comes_in_steps():
    z = torch.linspace(0.5, 6, HEIGHT * WIDTH).reshape(1, HEIGHT, WIDTH)
    seen = measure(CameraProfile(baseline=0.06, disparity_step=0.25), z, "depth")
    steps = 100 * 0.06 / seen / 0.25
    assert (steps - steps.round()).abs().max() < 1e-3
    assert (steps - 100 * 0.06 / z / 0.25).abs().max() < 0.501
    assert len(seen.unique()) == len(steps.round().unique()) > 20


def test_no_reading_is_zero():
    z = plane(1.0)
    z[0, 0, 0], z[0, 1, 1], z[0, 2, 2], z[0, 3, 3] = math.inf, 0.2, 7.0, 0.0
    seen = measure(CameraProfile(min_range=0.3, max_range=6.0), z, "depth")
    for i in range(4):
        assert seen[0, i, i] == 0
        z[0, i, i] = 0
    assert torch.equal(seen, z)


def step_edge(near=1.0, far=3.0, left=60, right=100):
    z = plane(far)
    z[:, 30:90, left:right] = near
    return z


@pytest.mark.parametrize("width", [1, 3])
def test_edges_drop_out(width):
    seen = measure(CameraProfile(edge_dropout=1.0, edge_width=width), step_edge(), "depth")[0]
    lost = (seen[60] == 0).nonzero().flatten().tolist()
    beside = [*range(60 - width, 60 + width), *range(100 - width, 100 + width)]
    assert lost == beside
    assert (seen[:, 80] == 0).nonzero().flatten().tolist() == [
        *range(30 - width, 30 + width),
        *range(90 - width, 90 + width),
    ]
    kept = seen != 0
    assert torch.equal(seen[kept], step_edge()[0][kept])


def test_slopes_are_no_edges_and_dropping_out_is_a_chance():
    slope = 1 + torch.arange(WIDTH) * 0.02 + torch.zeros(1, HEIGHT, 1)
    assert torch.equal(measure(CameraProfile(edge_dropout=1.0), slope.contiguous(), "depth"), slope)
    profile, stripes = CameraProfile(edge_dropout=0.3), plane(1.0)
    stripes[:, :, ::2] = 2.0
    lost = (measure(profile, stripes, "depth") == 0).float().mean()
    assert lost == pytest.approx(0.3, abs=0.015)


@pytest.mark.parametrize("baseline", [0.3, -0.3])
def test_stereo_shadow_lies_beside_what_is_near(baseline):
    """The second imager, to the right, does not see a strip of the background left of a near object."""
    near, far = 1.5, 3.0
    profile = CameraProfile(baseline=baseline, stereo_shadow=True)
    seen = measure(profile, step_edge(near, far), "depth")[0]
    disparity = 100 * 0.3 / far
    width = 100 * 0.3 * (1 / near - 1 / far)
    assert (disparity, width) == (pytest.approx(10), pytest.approx(10))
    shadow, blind = (range(50, 60), range(10)) if baseline > 0 else (range(100, 110), range(150, 160))
    lost = set((seen[60] == 0).nonzero().flatten().tolist())
    assert len(lost ^ {*shadow, *blind}) <= 2  # a column at either end is a matter of rounding
    beyond = set((seen[10] == 0).nonzero().flatten().tolist())  # no object in this row
    assert len(beyond ^ set(blind)) <= 1
    kept = seen != 0
    assert torch.equal(seen[kept], step_edge(near, far)[0][kept])


def test_slanted_surfaces_cast_no_shadow_on_themselves():
    z = 1 / (0.2 + 0.004 * torch.arange(WIDTH)) + torch.zeros(1, HEIGHT, 1)
    for surface in (z, z.flip(-1)):
        seen = measure(CameraProfile(baseline=0.5, stereo_shadow=True), surface.contiguous(), "depth")[0, 50]
        inside = seen[int(100 * 0.5 / float(surface.min())) + 2 :]
        assert (inside != 0).all()
        assert len(inside) > 50


def test_a_thin_pole_hides_a_strip_and_not_all_to_its_left():
    z = step_edge(1.5, 3.0, left=80, right=83)
    lost = (measure(CameraProfile(baseline=0.3, stereo_shadow=True), z, "depth")[0, 60, 12:] == 0).sum()
    assert 2 <= lost <= 4


# -- shutter -----------------------------------------------------------------------------------------------------------


def exposed(imager, frames, weights, envs=None, out=None):
    out = torch.zeros_like(frames[0]) if out is None else out
    for number, (frame, weight) in enumerate(zip(frames, weights, strict=True)):
        imager.expose(frame, weight, number == 0, envs)
    imager.develop(out, envs)
    return out


def test_blur_averages_linear_light():
    imager = make(CameraProfile())
    quarter = torch.full((4, HEIGHT), 0.25)
    out = exposed(imager, [gray(0), gray(255), gray(100), gray(0)], quarter)
    assert (out == int(to_code((1 + to_linear(100)) / 4))).all()
    image = random_truth()["rgb"]
    assert torch.equal(exposed(imager, [image] * 7, torch.full((7, HEIGHT), 1 / 7)), image)


def test_rows_and_envs_are_exposed_by_themselves():
    imager = make(CameraProfile(), n_envs=2)
    white, black = (torch.full((2, HEIGHT, WIDTH, 3), value, dtype=torch.uint8) for value in (255, 0))
    weights = torch.zeros(2, HEIGHT)
    weights[0, :5], weights[1, 5:] = 1, 1
    out = exposed(imager, [white, black], weights, envs=[1], out=torch.full_like(white, 77))
    assert (out[0] == 77).all()
    assert (out[1, :5] == 255).all()
    assert (out[1, 5:] == 0).all()


def test_rows_take_the_frame_of_their_time():
    shutter = Shutter(exposure=0.0, rolling=0.4, blurs=1, rolls=5)
    assert shutter.ages == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    expected = 4 - np.rint(np.linspace(0, 4, 101) - 1e-9)  # age of the row, in frames
    assert shutter.nearest(101).tolist() == expected.tolist()
    assert shutter.weights(101).argmax(0).tolist() == expected.tolist()
    assert torch.equal(shutter.weights(101).sum(0), torch.ones(101))


@pytest.mark.parametrize(("exposure", "rolling"), [(0.1, 0.0), (0.1, 0.4), (0.4, 0.1), (0.001, 0.4)])
def test_rows_that_share_frames_see_the_mean_time_of_their_exposure(exposure, rolling):
    shutter = Shutter(exposure, rolling, blurs=4, rolls=8)
    assert len(shutter.ages) == (11 if rolling else 4)  # not 32
    assert (shutter.ages[0], shutter.ages[-1]) == pytest.approx((0, exposure + rolling))
    weights = shutter.weights(50).double()
    assert weights.sum(0).numpy() == pytest.approx(1)
    age = (weights * torch.tensor(shutter.ages, dtype=torch.float64)[:, None]).sum(0).numpy()
    middle = np.linspace(rolling, 0, 50) + exposure / 2
    assert age == pytest.approx(middle, abs=shutter.step / 2)
    assert age.mean() == pytest.approx(middle.mean(), abs=shutter.step / 10)
    outside = np.abs(np.array(shutter.ages)[:, None] - middle) > exposure / 2 + shutter.step / 2 + 1e-9
    assert (weights.numpy()[outside] == 0).all()


# -- profiles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rgbd", "action", "machine_vision"])
def test_named_profiles(name, tmp_path):
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


def test_the_rgbd_profile_keeps_what_it_quotes():
    """At 640 x 480 and 58 degrees: error below 2% at 2 m, nothing nearer than 0.28 m."""
    focal = 240 / math.tan(math.radians(29))
    given = intrinsics(fx=focal, fy=focal, cx=320, cy=240)
    seen = measure(CameraProfile.named("rgbd"), torch.full((1, 480, 640), 2.0), "depth", given=given)
    error = seen[seen > 0] - 2
    assert 0.004 < error.square().mean().sqrt() / 2 < 0.02
    near = measure(CameraProfile.named("rgbd"), torch.full((1, 480, 640), 0.25), "depth", given=given)
    assert (near == 0).all()


def test_the_apertures_radius():
    assert CameraProfile(focal_length=0.008, f_number=4.0).aperture_radius == pytest.approx(0.001)
    assert CameraProfile().aperture_radius == 0


def test_names_that_do_not_exist():
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
        ({"k4": 0.1}, "k4 belongs"),
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
def test_bad_options_are_named(options, words):
    with pytest.raises(sn.OptionError, match=words):
        CameraProfile(**options)


@pytest.mark.parametrize(
    ("text", "words"), [(None, "cannot be read"), ("{", "not JSON"), ("[1]", "JSON object"), ('{"k1": "x"}', "k1")]
)
def test_bad_files_are_named(tmp_path, text, words):
    path = tmp_path / "profile.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(sn.OptionError, match=words) as error:
        CameraProfile.load(path)
    assert "profile.json" in str(error.value)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(sn.OptionError, match=r"camera profile .*none/own\.json' cannot be written: No such file"):
        CameraProfile(k1=0.1).save(tmp_path / "none" / "own.json")


def test_a_saved_profile_holds_what_was_set(tmp_path):
    CameraProfile(k1=-0.1, white_balance=(1.0, 1.0, 1.2)).save(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text()) == {"k1": -0.1, "white_balance": [1.0, 1.0, 1.2]}


def test_a_lens_does_not_work_in_place():
    image = gray(10)
    with pytest.raises(sn.OptionError, match="in place"):
        make(CameraProfile(k1=-0.1)).apply({"rgb": image}, {"rgb": image}, 0)


def test_profiles_load_no_gpu_library():
    code = "import sys; from sensorium.cameras.imager.profile import CameraProfile; CameraProfile.named('rgbd')"
    code += "; print([name for name in ('warp', 'numba', 'matplotlib') if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["rgbd", "action", "machine_vision"])
def test_the_gpu_gives_the_same_bits(name):
    truth = random_truth(3)
    results = []
    for device in ("cpu", "cuda"):
        out = {key: torch.zeros_like(image, device=device) for key, image in truth.items()}
        given = {key: image.to(device) for key, image in truth.items()}
        make(CameraProfile.named(name), n_envs=3, device=device).apply(given, out, 5)
        results.append({key: image.cpu() for key, image in out.items()})
    for key in truth:
        assert torch.equal(results[0][key], results[1][key]), key
