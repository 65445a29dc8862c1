"""How the scripts of the gallery save pictures: as PNG files of 256 colours, which are a third as large."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

PICTURES = Path(__file__).parent.parent / "pictures"


def save_image(image: np.ndarray, name: str) -> None:
    """Write an image (H, W, 3) uint8 as docs/pictures/NAME.png."""
    picture = Image.fromarray(np.ascontiguousarray(image))
    # maximum coverage keeps colours of small objects
    palette = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE)
    small = picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)  # smooth skies
    small.save(PICTURES / f"{name}.png", optimize=True)


def save_figure(figure: Figure, name: str, dpi: int = 100) -> None:
    """Write a figure as docs/pictures/NAME.png."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    save_image(np.asarray(canvas.buffer_rgba())[..., :3], name)
