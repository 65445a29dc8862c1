"""How the scripts of the gallery save pictures: usually as PNG files of 256 colours, which are a third as large."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

PICTURES = Path(__file__).parent.parent / "pictures"


def save_image(image: np.ndarray, name: str, small: bool = True) -> None:
    """Write an image (H, W, 3) uint8 as docs/pictures/NAME.png, with 256 colours if ``small``."""
    picture = Image.fromarray(np.ascontiguousarray(image))
    if not small:
        picture.save(PICTURES / f"{name}.png", optimize=True)
        return
    # maximum coverage keeps colours of small objects
    palette = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE)
    reduced = picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)  # smooth skies
    reduced.save(PICTURES / f"{name}.png", optimize=True)


def save_figure(figure: Figure, name: str, dpi: int = 100, small: bool = True) -> None:
    """Write a figure as docs/pictures/NAME.png, with 256 colours if ``small``."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    save_image(np.asarray(canvas.buffer_rgba())[..., :3], name, small)
