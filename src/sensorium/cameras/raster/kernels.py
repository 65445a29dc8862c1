"""Numba kernels that convert OpenGL buffers, which store the bottom row first, to images with the top row first."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import numpy as np

from sensorium.jit import kernel


@kernel
def flip_depth(levels, near, far, out):
    """Convert reversed depth levels (1 at the near plane, 0 at the far plane and beyond) to metres along the axis."""
    height, width = levels.shape
    for row in range(height):
        for column in range(width):
            level = np.float64(levels[height - 1 - row, column])
            if level <= 0.0:
                out[row, column] = np.inf
            else:
                out[row, column] = near * far / (level * (far - near) + near)


@kernel
def flip_ids(colours, ids, out):
    """Convert colours, which encode the index of a shape in 24 bits, to (body, geom) ids."""
    height, width = colours.shape[:2]
    for row in range(height):
        for column in range(width):
            colour = colours[height - 1 - row, column]
            number = np.int64(colour[0]) + (np.int64(colour[1]) << 8) + (np.int64(colour[2]) << 16)
            out[row, column, 0] = ids[number, 0]
            out[row, column, 1] = ids[number, 1]
