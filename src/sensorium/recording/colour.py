"""Conversion of RGB images to the luma and chroma planes of video codecs: ITU-R BT.601, studio range, 8 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sensorium.jit import helper, kernel

if TYPE_CHECKING:
    from av import VideoFrame

_I, _S = np.int32, np.int16


@helper
def _luma(row: np.ndarray, y: np.ndarray) -> None:
    """Convert one image row, (3 * W,), to luma (W,). On a flat row LLVM reads the three channels with vector loads."""
    for c in range(row.shape[0] // 3):
        red, green, blue = _I(row[3 * c]), _I(row[3 * c + 1]), _I(row[3 * c + 2])
        y[c] = np.uint8((_I(8414) * red + _I(16519) * green + _I(3208) * blue + _I(540672)) >> _I(15))


@helper
def _add(top: np.ndarray, low: np.ndarray, red: np.ndarray, green: np.ndarray, blue: np.ndarray) -> None:
    """Add two image rows, (3 * W,), channel by channel into (W,) int16."""
    for c in range(top.shape[0] // 3):
        red[c] = _S(top[3 * c]) + _S(low[3 * c])
        green[c] = _S(top[3 * c + 1]) + _S(low[3 * c + 1])
        blue[c] = _S(top[3 * c + 2]) + _S(low[3 * c + 2])


@kernel
def to_420(image: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray) -> None:
    """Convert an (H, W, 3) image of even size to luma (H, W) and chroma (H/2, W/2), the mean of each 2 x 2 block."""
    rows = image.reshape(image.shape[0], -1)
    sums = np.empty((3, image.shape[1]), _S)
    reds, greens, blues = sums[0], sums[1], sums[2]
    for r in range(image.shape[0] // 2):
        top, low, u_row, v_row = rows[2 * r], rows[2 * r + 1], u[r], v[r]
        _luma(top, y[2 * r])
        _luma(low, y[2 * r + 1])
        _add(top, low, reds, greens, blues)
        for c in range(image.shape[1] // 2):
            red = _I(reds[2 * c]) + _I(reds[2 * c + 1])
            green = _I(greens[2 * c]) + _I(greens[2 * c + 1])
            blue = _I(blues[2 * c]) + _I(blues[2 * c + 1])
            u_row[c] = np.uint8((_I(14392) * blue - _I(4857) * red - _I(9535) * green + _I(16842752)) >> _I(17))
            v_row[c] = np.uint8((_I(14392) * red - _I(12051) * green - _I(2341) * blue + _I(16842752)) >> _I(17))


@kernel
def to_444(image: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray) -> None:
    """Convert an (H, W, 3) image to three planes (H, W)."""
    rows = image.reshape(image.shape[0], -1)
    for r in range(image.shape[0]):
        row, u_row, v_row = rows[r], u[r], v[r]
        _luma(row, y[r])
        for c in range(image.shape[1]):
            red, green, blue = _I(row[3 * c]), _I(row[3 * c + 1]), _I(row[3 * c + 2])
            u_row[c] = np.uint8((_I(14392) * blue - _I(4857) * red - _I(9535) * green + _I(4210688)) >> _I(15))
            v_row[c] = np.uint8((_I(14392) * red - _I(12051) * green - _I(2341) * blue + _I(4210688)) >> _I(15))


def to_frame(image: np.ndarray) -> VideoFrame:
    """Return an (H, W, 3) uint8 image as a PyAV frame.

    The frame is yuv420p (one chroma sample per 2 x 2 pixels), or yuv444p if the width or the height is odd.
    """
    import av

    height, width = image.shape[:2]
    odd = height % 2 or width % 2
    frame = av.VideoFrame(width, height, "yuv444p" if odd else "yuv420p")
    planes = [  # with the padding at the end of their lines, so that they are contiguous
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)  # type: ignore[call-overload]
        for plane in frame.planes
    ]
    (to_444 if odd else to_420)(np.ascontiguousarray(image), *planes)
    return frame
