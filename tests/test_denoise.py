"""The à-trous filter on images of known content, and the choice of denoisers."""

import importlib.util
import platform
from dataclasses import replace

import numpy as np
import pytest

import sensorium as sn
from sensorium.cameras import RaytracerCamera
from sensorium.cameras.pathtrace.atrous import GRID, filtered, finer, guides_of
from sensorium.cameras.pathtrace.denoise import _hardest, _variance_around, denoiser_of
from sensorium.cameras.pathtrace.tracers import Lens, Surfaces

SIZE = 48


def lens(width=SIZE, height=SIZE, aperture=0.0, focus=1e4):
    turn = np.eye(3)
    return Lens(width, height, 60.0, 60.0, width / 2, height / 2, 0.01, 100.0, np.zeros(3), turn, aperture, focus)


def wall(eye, depth=2.0, normal=(0.0, 0.0, -1.0), albedo=0.5):
    """The surfaces of a wall that faces the camera; each argument may differ between rays (H * GRID, W * GRID)."""
    size = (eye.height * GRID, eye.width * GRID)
    vector = (*size, 3)
    return Surfaces(
        np.broadcast_to(np.asarray(depth, np.float32), size).copy(),
        np.zeros(size, int),
        np.zeros(size, int),
        np.broadcast_to(np.asarray(normal, np.float32), vector).copy(),
        np.broadcast_to(np.asarray(albedo, np.float32), vector).copy(),
    )


def clean(light, surfaces, eye=None, sigma=0.0):
    eye = eye or lens(light.shape[1], light.shape[0])
    variance = np.full(light.shape, sigma**2, np.float32)
    return filtered(light.astype(np.float32), variance, np.ones(light.shape[:2], np.float32), guides_of(eye, surfaces))


def noise(sigma, size=(SIZE, SIZE), seed=0):
    return np.random.default_rng(seed).normal(0, sigma, (*size, 3)).astype(np.float32)


def halves(left, right, size=SIZE):
    """(size, size * GRID) wide halves: values of rays left and right of the middle of the image."""
    left, right = np.asarray(left, np.float32), np.asarray(right, np.float32)
    is_left = (np.arange(size * GRID) < size * GRID // 2).reshape(1, -1, *(1,) * left.ndim)
    return np.where(is_left, left, right) * np.ones((size * GRID, 1, *(1,) * left.ndim), np.float32)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (SIZE, SIZE)])
@pytest.mark.parametrize("sigma", [0.0, 0.3])
@pytest.mark.parametrize("depth", [2.0, np.inf])
def test_a_constant_image_stays_constant(size, sigma, depth):
    eye = lens(size[1], size[0])
    light = np.full((*size, 3), (0.7, 0.2, 4.0), np.float32)
    out = clean(light, wall(eye, depth), sigma=sigma)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, light, rtol=1e-5)


def test_noise_on_a_wall_is_reduced_and_its_mean_stays():
    sigma = 0.2
    out = clean(1 + noise(sigma), wall(lens()), sigma=sigma)
    assert out.std() < sigma / 8  # five passes of the B3 spline average over more than 64 pixels
    assert out.mean() == pytest.approx(1, abs=0.01)


def test_noise_on_a_slanted_wall_is_reduced_too():
    eye, sigma = lens(), 0.2
    slope = np.array([0.8, 0.0, -0.6], np.float32)
    x = ((np.arange(eye.width * GRID) + 0.5) / GRID - eye.cx) / eye.fx
    depth = -1.2 / (slope[0] * x + slope[2])  # the plane slope . p = -1.2
    out = clean(1 + noise(sigma), wall(eye, np.tile(depth, (eye.height * GRID, 1)), slope), sigma=sigma)
    assert out.std() < sigma / 8


@pytest.mark.parametrize("edge", ["depth", "normal", "sky"])
def test_an_edge_that_noise_hides_is_not_blurred(edge):
    eye, sigma = lens(), 0.5
    if edge == "normal":
        surfaces = wall(eye, normal=halves((0.6, 0.0, -0.8), (-0.6, 0.0, -0.8)))
        x = np.abs((np.arange(eye.width * GRID) + 0.5) / GRID - eye.cx) / eye.fx
        surfaces = surfaces._replace(depth=np.tile(1.6 / (0.8 + 0.6 * x), (eye.height * GRID, 1)).astype(np.float32))
    else:
        surfaces = wall(eye, halves(2.0, 2.5 if edge == "depth" else np.inf))
    truth = np.where(np.arange(SIZE)[:, None] < SIZE // 2, 1.0, 1.5) * np.ones((SIZE, 1, 3))
    out = clean(truth + noise(sigma), surfaces, sigma=sigma)
    sides = [out[:, : SIZE // 2], out[:, SIZE // 2 :]]
    assert np.sqrt(((out - truth) ** 2)[:, SIZE // 2 - 1 : SIZE // 2 + 1].mean()) < sigma / 4
    assert sides[0][:, -1].mean() == pytest.approx(1, abs=0.06)
    assert sides[1][:, 0].mean() == pytest.approx(1.5, abs=0.06)


def test_texture_survives_noise():
    eye, sigma = lens(), 0.1
    texture = np.random.default_rng(1).uniform(0.05, 0.9, (SIZE, SIZE, 3)).astype(np.float32)
    surfaces = wall(eye, albedo=texture.repeat(GRID, 0).repeat(GRID, 1))
    irradiance = 1 + noise(sigma)
    out = filtered(
        texture * irradiance, (sigma * texture) ** 2, np.ones((SIZE, SIZE), np.float32), guides_of(eye, surfaces)
    )
    assert np.corrcoef(out.ravel(), texture.ravel())[0, 1] > 0.999
    assert np.sqrt(((out - texture) ** 2).mean()) < 0.35 * np.sqrt(((texture * irradiance - texture) ** 2).mean())


def test_detail_beyond_noise_survives_where_guides_do_not_show_it():
    light = np.where((np.indices((SIZE, SIZE)).sum(0) // 3) % 2 == 0, 0.2, 1.0)[..., None] * np.ones(3)
    np.testing.assert_allclose(clean(light, wall(lens()), sigma=0.01), light, rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("mixed", [False, True])
def test_pixels_that_are_not_finite_do_not_spread(bad, mixed):
    light = 1 + noise(0.1)
    light[10, 11] = light[30, 24] = bad
    light[20, 5, 1] = bad
    depth = halves(2.0, 3.0)
    if mixed:
        depth = np.roll(depth, 2, 1)  # through the middle of pixels of column 24, and of column 0
    out = clean(light, wall(lens(), depth), sigma=0.1)
    assert np.isfinite(out).all()
    assert np.abs(out - 1).max() < 0.5
    assert np.isfinite(clean(np.full((3, 5, 3), bad), wall(lens(5, 3)))).all()


def test_black_and_mirrors_have_no_albedo_and_are_filtered():
    out = clean(0.3 + noise(0.05), wall(lens(), albedo=0.0), sigma=0.05)
    assert out.std() < 0.05 / 8


def test_a_pixel_at_a_silhouette_has_the_mean_of_its_rays():
    eye, sigma = lens(), 0.2
    surfaces = wall(eye, np.roll(halves(2.0, 3.0), 1, 1))  # one ray of four in column 24 sees the left wall
    share = np.clip(SIZE // 2 + 0.25 - np.arange(SIZE), 0, 1)[None, :, None]
    truth = share * 1.0 + (1 - share) * 2.0 + np.zeros((SIZE, SIZE, 3))
    truth[:, 0] = 0.25 * 2.0 + 0.75 * 1.0  # the roll wraps
    out = clean(truth + noise(sigma), surfaces, sigma=sigma)
    middle = out[:, SIZE // 2]
    assert middle.mean() == pytest.approx(1.75, abs=0.05)
    assert middle.std() < sigma / 2


def test_what_the_lens_blurs_is_not_divided_by_a_sharp_texture():
    texture = np.where(np.arange(SIZE) % 2, 0.9, 0.1)[:, None] * np.ones((SIZE, 1, 3))
    blurred = np.full((SIZE, SIZE, 3), 0.5)
    surfaces = wall(lens(), albedo=texture.repeat(GRID, 0).repeat(GRID, 1))
    out = clean(blurred, surfaces, lens(aperture=0.1, focus=0.5), sigma=0.5)
    np.testing.assert_allclose(out, blurred, rtol=1e-4)


def test_the_same_input_gives_the_same_bits():
    from concurrent.futures import ThreadPoolExecutor

    surfaces, light = wall(lens(), np.roll(halves(2.0, 3.0), 2, 1)), 1 + noise(0.3)
    first = clean(light, surfaces, sigma=0.3)
    with ThreadPoolExecutor(3) as pool:
        others = list(pool.map(lambda _: clean(light, surfaces, sigma=0.3), range(6)))
    assert all((first == other).all() for other in others)


def test_guides_are_of_rays_finer_than_pixels():
    eye = lens(5, 3)
    fine = finer(eye)
    assert (fine.width, fine.height, fine.fx, fine.cy) == (5 * GRID, 3 * GRID, 60.0 * GRID, 1.5 * GRID)
    guides = guides_of(eye, wall(eye))
    assert (guides.mixed == -1).all()
    np.testing.assert_allclose(guides.mean[1, 2], [0, 0, 2, 0, 0, -1, 0.52, 0.52, 0.52], atol=1e-6)
    assert (guides_of(replace(eye, cx=7.0), wall(eye)).mean[..., 0] < 0).all()


def test_the_hardest_pixels_are_the_noisiest_and_those_not_finite():
    light, variance = np.ones((30, 40, 3), np.float32), np.zeros((30, 40, 3), np.float32)
    assert len(_hardest(light, variance)) == 0
    variance[10, 20], light[3, 4] = 5.0, np.nan
    hard = _hardest(light, variance)
    assert hard[0] == 3 * 40 + 4
    assert len(hard) == 10  # 3 x 3 pixels around the noisy one are as hard
    assert {(10 + i) * 40 + 20 + j for i in (-1, 0, 1) for j in (-1, 0, 1)} == set(hard[1:].tolist())


def test_one_sample_has_the_variance_of_its_neighbours():
    assert _variance_around(1 + noise(0.3)).mean() == pytest.approx(0.3**2, rel=0.15)


def no_oidn(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "pyoidn" else find(name, *rest)
    )


def test_true_means_open_image_denoise_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert [denoiser_of(each) for each in (False, True, "oidn", "atrous")] == [None, "oidn", "oidn", "atrous"]
    no_oidn(monkeypatch)
    assert [denoiser_of(each) for each in (False, True, "atrous")] == [None, "atrous", "atrous"]


def test_open_image_denoise_that_is_missing_is_named(monkeypatch):
    no_oidn(monkeypatch)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(sn.DeviceError, match=r"denoise='oidn' needs.*sensorium\[photoreal\].*denoise='atrous' works"):
        denoiser_of("oidn")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(sn.DeviceError, match=r"Linux x86-64 alone, and this is \w+ aarch64; denoise='atrous' works"):
        denoiser_of("oidn")


def test_the_option_takes_the_names_of_denoisers():
    assert [RaytracerCamera(denoise=each).denoise for each in (False, True, "oidn", "atrous")][1:3] == [True, "oidn"]
    with pytest.raises(sn.OptionError, match="denoise"):
        RaytracerCamera(denoise="blur")
