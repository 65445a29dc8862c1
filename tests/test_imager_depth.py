"""Measurement of depth: noise, steps of disparity, drop-outs at edges and stereo shadows."""

import math

import pytest
import torch
from imager_images import HEIGHT, WIDTH, intrinsics, measure

from sensorium.cameras import CameraProfile


def plane(z, n_envs=1):
    return torch.full((n_envs, HEIGHT, WIDTH), z)


@pytest.mark.parametrize("z", [0.5, 2.0, 5.0])
def test_depth_noise_grows_with_range(z):
    profile = CameraProfile(depth_noise=(0.002, 0.001, 0.0004), disparity_noise=0.05, baseline=0.06)
    seen = measure(profile, plane(z), "depth").numpy()
    sigma = 0.002 + 0.001 * z + 0.0004 * z**2 + 0.05 * z**2 / (100 * 0.06)
    assert seen.std() == pytest.approx(sigma, rel=0.03)
    assert seen.mean() == pytest.approx(z, abs=5 * sigma / math.sqrt(seen.size))


def test_disparity_is_rounded_to_steps():
    z = torch.linspace(0.5, 6, HEIGHT * WIDTH).reshape(1, HEIGHT, WIDTH)
    seen = measure(CameraProfile(baseline=0.06, disparity_step=0.25), z, "depth")
    steps = 100 * 0.06 / seen / 0.25
    assert (steps - steps.round()).abs().max() < 1e-3
    assert (steps - 100 * 0.06 / z / 0.25).abs().max() < 0.501
    assert len(seen.unique()) == len(steps.round().unique()) > 20


@pytest.mark.parametrize("size", [(84, 84), (224, 224), (640, 480)])
def test_error_of_the_rgbd_profile_does_not_depend_on_the_resolution(size):
    """Disparities are in pixels of the depth imager, so the error is that of the data sheet: below 2% at 2 m."""
    profile = CameraProfile.named("rgbd")
    focal = size[1] / 2 / math.tan(math.radians(29))
    given = intrinsics(fx=focal, fy=focal, cx=size[0] / 2, cy=size[1] / 2)
    for z in (1.0, 2.0, 4.0):
        seen = measure(profile, torch.full((1, size[1], size[0]), z), "depth", given=given).double()
        error = seen[seen > 0] - z
        per_pixel = z**2 / (643.33 * 0.05)  # depth error for a disparity error of one pixel
        expected = per_pixel * math.hypot(0.08, 0.03125 / math.sqrt(12))  # noise, and rounding to steps
        assert float(error.square().mean().sqrt()) == pytest.approx(expected, rel=0.04)
        assert abs(float(error.mean())) < 0.05 * expected
        if z == 2.0:
            assert float(error.square().mean().sqrt()) < 0.02 * z / 3


def test_disparity_is_in_pixels_of_the_image_without_a_focal_length_of_the_imager():
    own = {"baseline": 0.06, "disparity_noise": 0.1, "disparity_step": 0.01}
    image, imager = (
        measure(CameraProfile(**own, disparity_focal_length=focal), plane(2.0), "depth") for focal in (None, 100.0)
    )
    assert torch.equal(image, imager)  # 100 is the focal length of the image
    twice = measure(CameraProfile(**own, disparity_focal_length=200.0), plane(2.0), "depth")
    assert float(twice.std()) == pytest.approx(float(image.std()) / 2, rel=0.01)


def test_stereo_shadows_do_not_depend_on_the_focal_length_of_the_imager():
    plain, other = (
        measure(CameraProfile(baseline=0.3, stereo_shadow=True, disparity_focal_length=focal), step_edge(), "depth")
        for focal in (None, 700.0)
    )
    assert torch.equal(plain, other)


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
def test_pixels_beside_edges_drop_out(width):
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


def test_slopes_do_not_drop_out_and_dropout_is_a_probability():
    slope = 1 + torch.arange(WIDTH) * 0.02 + torch.zeros(1, HEIGHT, 1)
    assert torch.equal(measure(CameraProfile(edge_dropout=1.0), slope.contiguous(), "depth"), slope)
    profile, stripes = CameraProfile(edge_dropout=0.3), plane(1.0)
    stripes[:, :, ::2] = 2.0
    lost = (measure(profile, stripes, "depth") == 0).float().mean()
    assert lost == pytest.approx(0.3, abs=0.015)


@pytest.mark.parametrize("baseline", [0.3, -0.3])
def test_stereo_shadow_is_beside_near_objects(baseline):
    """A second imager on the right does not see a strip of the background to the left of a near object."""
    near, far = 1.5, 3.0
    profile = CameraProfile(baseline=baseline, stereo_shadow=True)
    seen = measure(profile, step_edge(near, far), "depth")[0]
    disparity = 100 * 0.3 / far
    width = 100 * 0.3 * (1 / near - 1 / far)
    assert (disparity, width) == (pytest.approx(10), pytest.approx(10))
    shadow, blind = (range(50, 60), range(10)) if baseline > 0 else (range(100, 110), range(150, 160))
    lost = set((seen[60] == 0).nonzero().flatten().tolist())
    assert len(lost ^ {*shadow, *blind}) <= 2  # one column at either end depends on rounding
    beyond = set((seen[10] == 0).nonzero().flatten().tolist())  # this row has no object
    assert len(beyond ^ set(blind)) <= 1
    kept = seen != 0
    assert torch.equal(seen[kept], step_edge(near, far)[0][kept])


def test_oblique_surfaces_do_not_shadow_themselves():
    z = 1 / (0.2 + 0.004 * torch.arange(WIDTH)) + torch.zeros(1, HEIGHT, 1)
    for surface in (z, z.flip(-1)):
        seen = measure(CameraProfile(baseline=0.5, stereo_shadow=True), surface.contiguous(), "depth")[0, 50]
        inside = seen[int(100 * 0.5 / float(surface.min())) + 2 :]
        assert (inside != 0).all()
        assert len(inside) > 50


def test_thin_pole_shadows_only_a_strip():
    z = step_edge(1.5, 3.0, left=80, right=83)
    lost = (measure(CameraProfile(baseline=0.3, stereo_shadow=True), z, "depth")[0, 60, 12:] == 0).sum()
    assert 2 <= lost <= 4
