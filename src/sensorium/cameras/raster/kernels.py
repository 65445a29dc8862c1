"""From OpenGL's buffers, whose first row is the lowest, to images."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import numpy as np

from sensorium.jit import kernel


@kernel
def flip_depth(levels, near, far, out):
    """Metres along the optical axis from reversed depth levels: 1 at the near plane, 0 at the far one or beyond it."""
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
    """(body, geom) from colours that number the shapes."""
    height, width = colours.shape[:2]
    for row in range(height):
        for column in range(width):
            colour = colours[height - 1 - row, column]
            number = np.int64(colour[0]) + (np.int64(colour[1]) << 8) + (np.int64(colour[2]) << 16)
            out[row, column, 0] = ids[number, 0]
            out[row, column, 1] = ids[number, 1]
