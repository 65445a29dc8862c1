"""Numba kernels that convert OpenGL buffers, which store the bottom row first, to images with the top row first."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import numpy as np

from sensorium.jit import helper, kernel


@kernel
def flip_depth(levels, scale, offset, out):
    """Convert depth levels to metres along the axis, scale / (level + offset).

    Levels are 1 at the near plane, and 0 at the far plane and where nothing was drawn.
    """
    height, width = levels.shape
    for row in range(height):
        for column in range(width):
            level = np.float64(levels[height - 1 - row, column])
            if level <= 0.0:
                out[row, column] = np.inf
            else:
                out[row, column] = scale / (level + offset)


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


@kernel
def fill_normals(depth, sides, near, normals):
    """Compute unit normals in CV axes from depth, at the pixels whose normal is 0; 0 if nothing was hit.

    On a plane, 1 / depth is linear in x / z and y / z, so its slopes give the plane's normal up to rounding. Of the
    differences to the two neighbours of a pixel the smaller is used: at an edge, that neighbour is on the same surface.

    Args:
        depth: depth, m, (H, W), with the top row first.
        sides: left, right, bottom and top of the frustum at the near plane, m, (4,).
        near: depth of the near plane, m.
        normals: normals to fill, (H, W, 3).
    """
    height, width = depth.shape
    left, top = sides[0] / near, -sides[3] / near
    step_x, step_y = (sides[1] - sides[0]) / near / width, (sides[3] - sides[2]) / near / height
    for row in range(height):
        y = top + (row + 0.5) * step_y
        above, below = max(row - 1, 0), min(row + 1, height - 1)
        for column in range(width):
            found = normals[row, column]
            if found[0] != 0.0 or found[1] != 0.0 or found[2] != 0.0 or depth[row, column] == np.inf:
                continue
            x = left + (column + 0.5) * step_x
            before, after = max(column - 1, 0), min(column + 1, width - 1)
            here = 1.0 / np.float64(depth[row, column])
            slope_x = _slope(depth[row, before], here, depth[row, after], before == column, after == column) / step_x
            slope_y = _slope(depth[above, column], here, depth[below, column], above == row, below == row) / step_y
            forward = here - slope_x * x - slope_y * y
            norm = -1.0 / np.sqrt(slope_x * slope_x + slope_y * slope_y + forward * forward)  # to the camera
            normals[row, column, 0] = slope_x * norm
            normals[row, column, 1] = slope_y * norm
            normals[row, column, 2] = forward * norm


@helper
def _slope(before, here, after, is_first, is_last):
    """Return the smaller of the differences of 1 / depth to the two neighbours; at an edge of the image, the only."""
    forward, backward = 1.0 / np.float64(after) - here, here - 1.0 / np.float64(before)
    if is_last or (not is_first and abs(backward) <= abs(forward)):
        return backward
    return forward
