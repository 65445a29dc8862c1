"""Images and imagers that several imager tests share."""

import numpy as np
import torch

from sensorium.cameras.imager.lens import NO_MARGINS, Intrinsics

BROWN = {"k1": -0.22, "k2": 0.06, "k3": -0.004, "p1": 0.004, "p2": -0.003}
WIDTH, HEIGHT = 160, 120


def intrinsics(n_envs=1, fx=100.0, fy=100.0, cx=80.0, cy=60.0, device="cpu"):
    """Return intrinsics that are the same in all envs."""
    return Intrinsics(*(torch.full((n_envs,), value, device=device) for value in (fx, fy, cx, cy)))


def make(profile, size=(WIDTH, HEIGHT), given=None, n_envs=1, seed=0, uuid="cam", margins=NO_MARGINS, device="cpu"):
    """Return an imager for colour and depth."""
    from sensorium.cameras.imager.imager import Imager

    given = given or intrinsics(n_envs, device=device)
    return Imager(profile, *size, ("rgb", "depth"), given, n_envs, seed, uuid, device, margins)


def measure(profile, image, output="rgb", step=0, **options):
    """Return one output of a new imager for an image (B, H, W, ...)."""
    size = (image.shape[2], image.shape[1])
    margins = options.get("margins", NO_MARGINS)
    inner = (size[0] - margins.left - margins.right, size[1] - margins.top - margins.bottom)
    out = torch.full((image.shape[0], inner[1], inner[0], *image.shape[3:]), 7, dtype=image.dtype)
    make(profile, inner, n_envs=image.shape[0], **options).apply({output: image}, {output: out}, step)
    return out


def to_linear(code):
    """Convert 8-bit sRGB values to linear light."""
    code = np.asarray(code, np.float64) / 255
    return np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)


def to_code(light):
    """Convert linear light to 8-bit sRGB values."""
    light = np.clip(light, 0, 1)
    return np.rint(255 * np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055))


def assert_rounded(codes, light):
    """Assert that codes are the sRGB values of light; halves may be rounded to either side."""
    exact = 255 * np.where(light <= 0.0031308, light * 12.92, 1.055 * np.clip(light, 1e-9, 1) ** (1 / 2.4) - 0.055)
    assert np.abs(codes - np.clip(exact, 0, 255)).max() < 0.5001


def gray(code, n_envs=1, size=(WIDTH, HEIGHT)):
    """Return a uniform colour image."""
    return torch.full((n_envs, size[1], size[0], 3), code, dtype=torch.uint8)


def random_truth(n_envs=1, size=(WIDTH, HEIGHT), seed=0):
    """Return random images of all outputs."""
    rng = torch.Generator().manual_seed(seed)
    shape = (n_envs, size[1], size[0])
    return {
        "rgb": torch.randint(0, 256, (*shape, 3), generator=rng, dtype=torch.uint8),
        "depth": 1 + 3 * torch.rand(shape, generator=rng),
        "segmentation": torch.randint(-1, 40, (*shape, 2), generator=rng, dtype=torch.int32),
        "normals": torch.rand((*shape, 3), generator=rng),
        "instance": torch.randint(-1, 40, shape, generator=rng, dtype=torch.int32),
    }
