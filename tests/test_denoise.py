"""The à-trous filter on images with known content, and the choice of the denoiser."""

import importlib.util
import platform
from dataclasses import replace

import numpy as np
import pytest

import sensorium as sn
from sensorium.cameras import RaytracerCamera
from sensorium.cameras.pathtrace.atrous import GRID, filter_radiance, make_guides, subdivide
from sensorium.cameras.pathtrace.denoise import _local_variance, _noisiest_pixels, choose_denoiser
from sensorium.cameras.pathtrace.tracers import FirstHits, Viewpoint

SIZE = 48


def viewpoint(width=SIZE, height=SIZE, aperture=0.0, focus=1e4):
    centre, pose = (width / 2, height / 2), (np.zeros(3), np.eye(3))
    return Viewpoint(width, height, 60.0, 60.0, *centre, 0.01, 100.0, *pose, aperture, focus)


def wall(view, depth=2.0, normal=(0.0, 0.0, -1.0), albedo=0.5):
    """Return the first hits on a wall that faces the camera; arguments may be arrays over rays (H * GRID, W * GRID)."""
    size = (view.height * GRID, view.width * GRID)
    vector = (*size, 3)
    return FirstHits(
        np.broadcast_to(np.asarray(depth, np.float32), size).copy(),
        np.zeros(size, int),
        np.zeros(size, int),
        np.broadcast_to(np.asarray(normal, np.float32), vector).copy(),
        np.broadcast_to(np.asarray(albedo, np.float32), vector).copy(),
    )


def clean(light, hits, view=None, sigma=0.0):
    """Filter an image with noise of the standard deviation ``sigma``."""
    view = view or viewpoint(light.shape[1], light.shape[0])
    variance, effort = np.full(light.shape, sigma**2, np.float32), np.ones(light.shape[:2], np.float32)
    return filter_radiance(light.astype(np.float32), variance, effort, make_guides(view, hits))


def noise(sigma, size=(SIZE, SIZE), seed=0):
    return np.random.default_rng(seed).normal(0, sigma, (*size, 3)).astype(np.float32)


def halves(left, right, size=SIZE):
    """Return values over rays: one value left and one right of the centre of the image."""
    left, right = np.asarray(left, np.float32), np.asarray(right, np.float32)
    is_left = (np.arange(size * GRID) < size * GRID // 2).reshape(1, -1, *(1,) * left.ndim)
    return np.where(is_left, left, right) * np.ones((size * GRID, 1, *(1,) * left.ndim), np.float32)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (SIZE, SIZE)])
@pytest.mark.parametrize("sigma", [0.0, 0.3])
@pytest.mark.parametrize("depth", [2.0, np.inf])
def test_constant_image_stays_constant(size, sigma, depth):
    view = viewpoint(size[1], size[0])
    light = np.full((*size, 3), (0.7, 0.2, 4.0), np.float32)
    out = clean(light, wall(view, depth), sigma=sigma)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, light, rtol=1e-5)


def test_noise_on_a_wall_is_reduced_and_its_mean_is_kept():
    sigma = 0.2
    out = clean(1 + noise(sigma), wall(viewpoint()), sigma=sigma)
    assert out.std() < sigma / 8  # five passes of the B3 spline average over more than 64 pixels
    assert out.mean() == pytest.approx(1, abs=0.01)


def test_noise_on_an_oblique_wall_is_reduced():
    view, sigma = viewpoint(), 0.2
    slope = np.array([0.8, 0.0, -0.6], np.float32)
    x = ((np.arange(view.width * GRID) + 0.5) / GRID - view.cx) / view.fx
    depth = -1.2 / (slope[0] * x + slope[2])  # the plane slope . p = -1.2
    out = clean(1 + noise(sigma), wall(view, np.tile(depth, (view.height * GRID, 1)), slope), sigma=sigma)
    assert out.std() < sigma / 8


@pytest.mark.parametrize("edge", ["depth", "normal", "sky"])
def test_edges_hidden_by_noise_are_not_blurred(edge):
    view, sigma = viewpoint(), 0.5
    if edge == "normal":
        hits = wall(view, normal=halves((0.6, 0.0, -0.8), (-0.6, 0.0, -0.8)))
        x = np.abs((np.arange(view.width * GRID) + 0.5) / GRID - view.cx) / view.fx
        hits = hits._replace(depth=np.tile(1.6 / (0.8 + 0.6 * x), (view.height * GRID, 1)).astype(np.float32))
    else:
        hits = wall(view, halves(2.0, 2.5 if edge == "depth" else np.inf))
    truth = np.where(np.arange(SIZE)[:, None] < SIZE // 2, 1.0, 1.5) * np.ones((SIZE, 1, 3))
    out = clean(truth + noise(sigma), hits, sigma=sigma)
    sides = [out[:, : SIZE // 2], out[:, SIZE // 2 :]]
    assert np.sqrt(((out - truth) ** 2)[:, SIZE // 2 - 1 : SIZE // 2 + 1].mean()) < sigma / 4
    assert sides[0][:, -1].mean() == pytest.approx(1, abs=0.06)
    assert sides[1][:, 0].mean() == pytest.approx(1.5, abs=0.06)


def test_texture_is_kept():
    view, sigma = viewpoint(), 0.1
    texture = np.random.default_rng(1).uniform(0.05, 0.9, (SIZE, SIZE, 3)).astype(np.float32)
    hits = wall(view, albedo=texture.repeat(GRID, 0).repeat(GRID, 1))
    irradiance = 1 + noise(sigma)
    out = filter_radiance(
        texture * irradiance, (sigma * texture) ** 2, np.ones((SIZE, SIZE), np.float32), make_guides(view, hits)
    )
    assert np.corrcoef(out.ravel(), texture.ravel())[0, 1] > 0.999
    assert np.sqrt(((out - texture) ** 2).mean()) < 0.35 * np.sqrt(((texture * irradiance - texture) ** 2).mean())


def test_detail_stronger_than_noise_is_kept_without_guides():
    light = np.where((np.indices((SIZE, SIZE)).sum(0) // 3) % 2 == 0, 0.2, 1.0)[..., None] * np.ones(3)
    np.testing.assert_allclose(clean(light, wall(viewpoint()), sigma=0.01), light, rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("mixed", [False, True])
def test_pixels_that_are_not_finite_do_not_spread(bad, mixed):
    light = 1 + noise(0.1)
    light[10, 11] = light[30, 24] = bad
    light[20, 5, 1] = bad
    depth = halves(2.0, 3.0)
    if mixed:
        depth = np.roll(depth, 2, 1)  # edges through the centres of the pixels in columns 24 and 0
    out = clean(light, wall(viewpoint(), depth), sigma=0.1)
    assert np.isfinite(out).all()
    assert np.abs(out - 1).max() < 0.5
    assert np.isfinite(clean(np.full((3, 5, 3), bad), wall(viewpoint(5, 3)))).all()


def test_surfaces_without_albedo_are_filtered():
    out = clean(0.3 + noise(0.05), wall(viewpoint(), albedo=0.0), sigma=0.05)
    assert out.std() < 0.05 / 8


def test_silhouette_pixels_are_the_mean_of_their_rays():
    view, sigma = viewpoint(), 0.2
    hits = wall(view, np.roll(halves(2.0, 3.0), 1, 1))  # one of four rays in column 24 hits the left wall
    share = np.clip(SIZE // 2 + 0.25 - np.arange(SIZE), 0, 1)[None, :, None]
    truth = share * 1.0 + (1 - share) * 2.0 + np.zeros((SIZE, SIZE, 3))
    truth[:, 0] = 0.25 * 2.0 + 0.75 * 1.0  # np.roll wraps around
    out = clean(truth + noise(sigma), hits, sigma=sigma)
    middle = out[:, SIZE // 2]
    assert middle.mean() == pytest.approx(1.75, abs=0.05)
    assert middle.std() < sigma / 2


def test_blurred_images_are_not_divided_by_a_sharp_texture():
    texture = np.where(np.arange(SIZE) % 2, 0.9, 0.1)[:, None] * np.ones((SIZE, 1, 3))
    blurred = np.full((SIZE, SIZE, 3), 0.5)
    hits = wall(viewpoint(), albedo=texture.repeat(GRID, 0).repeat(GRID, 1))
    out = clean(blurred, hits, viewpoint(aperture=0.1, focus=0.5), sigma=0.5)
    np.testing.assert_allclose(out, blurred, rtol=1e-4)


def test_result_is_reproducible_to_the_bit():
    from concurrent.futures import ThreadPoolExecutor

    hits, light = wall(viewpoint(), np.roll(halves(2.0, 3.0), 2, 1)), 1 + noise(0.3)
    first = clean(light, hits, sigma=0.3)
    with ThreadPoolExecutor(3) as pool:
        others = list(pool.map(lambda _: clean(light, hits, sigma=0.3), range(6)))
    assert all((first == other).all() for other in others)


def test_guides_are_computed_from_subdivided_pixels():
    view = viewpoint(5, 3)
    fine = subdivide(view)
    assert (fine.width, fine.height, fine.fx, fine.cy) == (5 * GRID, 3 * GRID, 60.0 * GRID, 1.5 * GRID)
    guides = make_guides(view, wall(view))
    assert (guides.mixed == -1).all()
    np.testing.assert_allclose(guides.mean[1, 2], [0, 0, 2, 0, 0, -1, 0.52, 0.52, 0.52], atol=1e-6)
    assert (make_guides(replace(view, cx=7.0), wall(view)).mean[..., 0] < 0).all()


def test_noisiest_pixels_include_pixels_that_are_not_finite():
    light, variance = np.ones((30, 40, 3), np.float32), np.zeros((30, 40, 3), np.float32)
    assert len(_noisiest_pixels(light, variance)) == 0
    variance[10, 20], light[3, 4] = 5.0, np.nan
    noisy = _noisiest_pixels(light, variance)
    assert noisy[0] == 3 * 40 + 4
    assert len(noisy) == 10  # the 3 x 3 pixels around the noisy one have the same score
    assert {(10 + i) * 40 + 20 + j for i in (-1, 0, 1) for j in (-1, 0, 1)} == set(noisy[1:].tolist())


def test_local_variance_estimates_the_noise_of_one_sample():
    assert _local_variance(1 + noise(0.3)).mean() == pytest.approx(0.3**2, rel=0.15)


def hide_oidn(monkeypatch):
    """Make Open Image Denoise appear not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "pyoidn" else find(name, *rest)
    )


def test_denoise_true_selects_open_image_denoise_if_it_is_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert [choose_denoiser(each) for each in (False, True, "oidn", "atrous")] == [None, "oidn", "oidn", "atrous"]
    hide_oidn(monkeypatch)
    assert [choose_denoiser(each) for each in (False, True, "atrous")] == [None, "atrous", "atrous"]


def test_missing_open_image_denoise_raises_with_the_remedy(monkeypatch):
    hide_oidn(monkeypatch)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(sn.DeviceError, match=r"denoise='oidn' needs.*sensorium\[photoreal\].*denoise='atrous' works"):
        choose_denoiser("oidn")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(
        sn.DeviceError, match=r"exists only for Linux x86-64, and this is \w+ aarch64; denoise='atrous' works"
    ):
        choose_denoiser("oidn")


def test_denoise_option_accepts_names_of_denoisers():
    assert [RaytracerCamera(denoise=each).denoise for each in (False, True, "oidn", "atrous")][1:3] == [True, "oidn"]
    with pytest.raises(sn.OptionError, match="denoise"):
        RaytracerCamera(denoise="blur")
