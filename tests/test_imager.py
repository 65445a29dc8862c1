"""Colour, noise, compression and exposure of imagers, compared with closed forms and a real JPEG codec."""

import io
import math

import numpy as np
import pytest
import torch
from imager_images import (
    BROWN,
    HEIGHT,
    WIDTH,
    assert_rounded,
    gray,
    intrinsics,
    make,
    measure,
    random_truth,
    to_code,
    to_linear,
)

from sensorium.cameras import CameraProfile
from sensorium.cameras.imager.exposure import Shutter

# -- effects that are off ---------------------------------------------------------------------------------------------


def test_empty_profile_changes_no_bit():
    truth = random_truth(2)
    truth["depth"][0, 3, 4] = math.inf
    out = {name: torch.zeros_like(image) for name, image in truth.items()}
    make(CameraProfile(), n_envs=2).apply(truth, out, 5)
    for name, image in truth.items():
        assert torch.equal(out[name], image), name


@pytest.mark.parametrize(
    "options",
    [
        {"exposure_time": 0.01, "motion_blur": 4, "rolling_shutter": 0.01},  # applied by rendering sub-frames
        {"focal_length": 0.004, "f_number": 2.0, "focus_distance": 1.0},  # applied by the renderer
        {"iso": 3200.0, "bit_depth": 8},  # only used with electrons
        {"baseline": 0.05, "edge_width": 3, "edge_threshold": 0.1},  # only used with other effects
        {"jpeg_subsampling": "4:4:4"},
    ],
)
def test_options_of_other_stages_change_no_bit(options):
    truth = random_truth()
    for name, image in truth.items():
        assert torch.equal(measure(CameraProfile(**options), image, name), image), name


def test_colour_effects_do_not_change_depth_and_depth_effects_do_not_change_colour():
    truth = random_truth()
    color = CameraProfile(exposure=-1.0, vignette=0.5, full_well=1000, read_noise=3, jpeg_quality=50)
    ranging = CameraProfile(depth_noise=(0.1, 0, 0), baseline=0.05, stereo_shadow=True, edge_dropout=1.0)
    for name in ("depth", "segmentation", "normals", "instance"):
        assert torch.equal(measure(color, truth[name], name), truth[name])
    for name in ("rgb", "segmentation", "normals", "instance"):
        assert torch.equal(measure(ranging, truth[name], name), truth[name])
    assert not torch.equal(measure(color, truth["rgb"]), truth["rgb"])
    assert not torch.equal(measure(ranging, truth["depth"], "depth"), truth["depth"])


def test_srgb_values_are_unchanged_by_conversion_to_linear_light_and_back():
    image = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16, 1).expand(1, 16, 16, 3).contiguous()
    tiny_exposure = CameraProfile(exposure=1e-7)
    assert torch.equal(measure(tiny_exposure, image), image)


@pytest.mark.parametrize("profile", [CameraProfile(), CameraProfile.named("action"), CameraProfile.named("rgbd")])
@pytest.mark.parametrize("envs", [[1], torch.tensor([False, True, False]), np.array([1]), 1])
def test_other_envs_are_not_changed(profile, envs):
    truth = random_truth(3)
    whole, part = ({name: torch.full_like(image, 9) for name, image in truth.items()} for _ in range(2))
    imager = make(profile, n_envs=3)
    imager.apply(truth, whole, 4)
    imager.apply(truth, part, 4, envs)
    for name, image in part.items():
        assert torch.equal(image[1], whole[name][1]), name
        assert (image[[0, 2]] == 9).all(), name


# -- exposure and colour ----------------------------------------------------------------------------------------------


def ramp():
    return torch.arange(256, dtype=torch.uint8).reshape(1, 1, 256, 1).expand(1, 4, 256, 3).contiguous()


@pytest.mark.parametrize("stops", [-2.0, -0.5, 1.0, 3.0])
def test_exposure_scales_light_by_powers_of_two(stops):
    seen = measure(CameraProfile(exposure=stops), ramp())[0, 0, :, 1].numpy()
    assert_rounded(seen, np.clip(to_linear(np.arange(256)) * 2**stops, 0, 1))


def test_white_balance_scales_linear_light():
    gains = (1.3, 0.9, 0.6)
    seen = measure(CameraProfile(white_balance=gains), ramp())[0, 0].numpy()
    for channel, gain in enumerate(gains):
        assert_rounded(seen[:, channel], np.clip(to_linear(np.arange(256)) * gain, 0, 1))


def test_pixels_saturate_before_the_gains():
    seen = measure(CameraProfile(exposure=3.0, white_balance=(0.5, 1.0, 1.0)), gray(200))
    assert seen[0, 0, 0].tolist() == [int(to_code(0.5)), 255, 255]


def test_color_temperature_changes_the_tint():
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
    # tungsten light of 2856 K (illuminant A: x = 0.4476, y = 0.4074) is white for a camera set to it
    x, y = 0.44757, 0.40745
    lamp = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]]) @ [
        x / y, 1.0, (1 - x - y) / y
    ]  # fmt: skip
    gains, day = (
        np.array(CameraProfile(color_temperature=2856.0).gains),
        np.array(CameraProfile(color_temperature=6504.0).gains),
    )
    white = lamp * gains / day
    assert white / white[1] == pytest.approx([1, 1, 1], abs=0.07)  # a black body differs slightly from daylight


# -- noise ------------------------------------------------------------------------------------------------------------


def electrons(profile, mean, frames=40, size=(64, 64), seed=0):
    """Return frames (frames, H, W, 3) in electrons, of light with ``mean`` electrons per pixel, and the exact mean."""
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
def test_noise_follows_the_photon_transfer_curve(read_noise, iso):
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


def test_iso_keeps_brightness_and_increases_noise():
    deviations = []
    for iso in (100.0, 400.0, 1600.0):
        counts, expected = electrons(CameraProfile(full_well=4000, iso=iso, bit_depth=14), 2000 * 100 / iso)
        assert counts.mean() == pytest.approx(expected, rel=0.005)  # brightness is unchanged
        deviations.append(counts.std() / expected)
    assert deviations[1] / deviations[0] == pytest.approx(2, rel=0.03)
    assert deviations[2] / deviations[1] == pytest.approx(2, rel=0.03)


def test_few_electrons_are_poisson_distributed():
    profile = CameraProfile(full_well=60, bit_depth=14)
    counts, mean = electrons(profile, 5.0)
    whole = np.rint(counts)
    assert np.abs(counts - whole).max() < 0.25  # 8-bit sRGB resolves them
    for k in range(12):
        expected = math.exp(-mean) * mean**k / math.factorial(k)
        assert (whole == k).mean() == pytest.approx(expected, abs=0.004)


@pytest.mark.parametrize("mean", [15.0, 17.5, 30.0])
def test_moments_are_those_of_poisson_on_both_sides_of_the_approximation(mean):
    counts, expected = electrons(CameraProfile(full_well=120, bit_depth=14), mean)
    assert (expected < 16) == (mean < 16)
    assert counts.mean() == pytest.approx(expected, rel=0.005)
    assert counts.var() == pytest.approx(expected, rel=0.02)
    skew = ((counts - counts.mean()) ** 3).mean() / counts.std() ** 3
    assert skew == pytest.approx(expected**-0.5, abs=0.03)


def test_dark_image_has_only_read_noise():
    counts, _ = electrons(CameraProfile(full_well=100, read_noise=4.0, bit_depth=14), 0)
    assert (counts == 0).mean() == pytest.approx(0.5, abs=0.02)  # values below black are clipped
    assert counts[counts > 0].mean() == pytest.approx(4 * math.sqrt(2 / math.pi), rel=0.05)


def test_bit_depth_sets_the_steps_of_the_converter():
    seen = measure(CameraProfile(full_well=1e9, bit_depth=8), ramp())[0, 0, :, 1].numpy()
    expected = to_code(np.rint(to_linear(np.arange(256)) * 255) / 255)
    assert np.array_equal(seen, expected)  # the noise of 1e9 electrons is negligible
    assert len(np.unique(seen[:64])) < 16  # dark values are merged


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


def test_noise_depends_only_on_seed_uuid_env_and_step():
    many, one = noisy(3), noisy(1)
    for name in many:
        assert torch.equal(many[name][:1], one[name]), name
    for name in ("rgb", "depth"):
        assert not torch.equal(many[name][1], many[name][0])
        for other in (noisy(1, step=4), noisy(1, seed=1), noisy(1, uuid="eye")):
            assert not torch.equal(other[name], one[name])
    again = noisy(1, step=torch.tensor([[3], [0]], dtype=torch.int32).view(torch.uint32))
    assert torch.equal(again["rgb"], one["rgb"])


# -- compression ------------------------------------------------------------------------------------------------------


def picture(width=203, height=149):
    """Return an image with gradients, sharp edges and a texture."""
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
def test_compression_agrees_with_a_jpeg_codec(quality, subsampling, code):
    image_module = pytest.importorskip("PIL.Image")
    image = picture()
    file = io.BytesIO()
    image_module.fromarray(image[0].numpy()).save(file, "JPEG", quality=quality, subsampling=code)
    real = np.asarray(image_module.open(file))
    ours = measure(CameraProfile(jpeg_quality=quality, jpeg_subsampling=subsampling), image)[0].numpy()
    lost = psnr(real, image[0])
    assert psnr(ours, real) > max(lost + 9, 45)  # much closer to the codec than either is to the original
    assert psnr(ours, image[0]) == pytest.approx(lost, abs=0.1)


def test_compression_loses_more_at_lower_quality():
    image = picture()
    profiles = [CameraProfile(jpeg_quality=q, jpeg_subsampling="4:4:4") for q in (5, 20, 50, 80, 98)]
    losses = [psnr(measure(profile, image), image) for profile in profiles]
    assert losses == sorted(losses)
    assert losses[0] < losses[-1] - 8


# -- shutter ----------------------------------------------------------------------------------------------------------


def exposed(imager, frames, weights, envs=None, out=None):
    out = torch.zeros_like(frames[0]) if out is None else out
    for number, (frame, weight) in enumerate(zip(frames, weights, strict=True)):
        imager.expose(frame, weight, number == 0, envs)
    imager.develop(out, envs)
    return out


def test_exposure_averages_linear_light():
    imager = make(CameraProfile())
    quarter = torch.full((4, HEIGHT), 0.25)
    out = exposed(imager, [gray(0), gray(255), gray(100), gray(0)], quarter)
    assert (out == int(to_code((1 + to_linear(100)) / 4))).all()
    image = random_truth()["rgb"]
    assert torch.equal(exposed(imager, [image] * 7, torch.full((7, HEIGHT), 1 / 7)), image)


def test_rows_and_envs_are_exposed_separately():
    imager = make(CameraProfile(), n_envs=2)
    white, black = (torch.full((2, HEIGHT, WIDTH, 3), value, dtype=torch.uint8) for value in (255, 0))
    weights = torch.zeros(2, HEIGHT)
    weights[0, :5], weights[1, 5:] = 1, 1
    out = exposed(imager, [white, black], weights, envs=[1], out=torch.full_like(white, 77))
    assert (out[0] == 77).all()
    assert (out[1, :5] == 255).all()
    assert (out[1, 5:] == 0).all()


def test_rows_use_the_sub_frame_of_their_time():
    shutter = Shutter(exposure=0.0, rolling=0.4, blur_frames=1, rolling_frames=5)
    assert shutter.ages == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    expected = 4 - np.rint(np.linspace(0, 4, 101) - 1e-9)  # age of the row, in sub-frames
    assert shutter.nearest(101).tolist() == expected.tolist()
    assert shutter.weights(101).argmax(0).tolist() == expected.tolist()
    assert torch.equal(shutter.weights(101).sum(0), torch.ones(101))


@pytest.mark.parametrize(("exposure", "rolling"), [(0.1, 0.0), (0.1, 0.4), (0.4, 0.1), (0.001, 0.4)])
def test_weights_of_shared_sub_frames_match_the_exposure_of_each_row(exposure, rolling):
    shutter = Shutter(exposure, rolling, blur_frames=4, rolling_frames=8)
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


# -- devices ----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["rgbd", "action", "machine_vision"])
def test_gpu_gives_the_same_bits_as_the_cpu(name):
    truth = random_truth(3)
    results = []
    for device in ("cpu", "cuda"):
        out = {key: torch.zeros_like(image, device=device) for key, image in truth.items()}
        given = {key: image.to(device) for key, image in truth.items()}
        make(CameraProfile.named(name), n_envs=3, device=device).apply(given, out, 5)
        results.append({key: image.cpu() for key, image in out.items()})
    for key in truth:
        assert torch.equal(results[0][key], results[1][key]), key
