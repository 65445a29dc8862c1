"""HTML for notebooks: tables and pictures of which ``_repr_html_`` of scenes, sensors, options and twins are made.

Every text is escaped here, so names of users cannot inject markup. The tables have no colours of their own, which suits
light and dark notebooks.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence

import numpy as np

MAX_NUMBERS = 6
"""How many numbers of an array are shown."""
MAX_WIDTH = 480
"""Width in pixels at which pictures are shown at most."""
_CELL = 'style="text-align:left;vertical-align:top"'


def heading(text: str) -> str:
    """Return a line in bold."""
    return f"<p><b>{html.escape(text)}</b></p>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts; line ends become line breaks."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(f"<{tag} {_CELL}>{html.escape(text).replace(chr(10), '<br>')}</{tag}>" for text in texts)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def details(summary: str, body: str) -> str:
    """Return a part that is folded until it is clicked. ``body`` is HTML."""
    return f"<details><summary>{html.escape(summary)}</summary>{body}</details>"


def numbers(values: np.ndarray) -> str:
    """Return the first numbers of an array as text, with four significant digits."""
    flat = np.asarray(values).reshape(-1)
    texts = [f"{value:.4g}" if flat.dtype.kind == "f" else str(value) for value in flat[:MAX_NUMBERS].tolist()]
    more = f", … ({flat.size} numbers)" if flat.size > MAX_NUMBERS else ""
    return ", ".join(texts) + more


def picture(values: np.ndarray, title: str) -> str:
    """Return an image: (H, W, 3) uint8, or (H, W) of any dtype, from its lowest value (black) to its highest (white).

    Values above three times the median are white too: otherwise a depth image would show the horizon only.
    """
    from PIL import Image

    values = np.asarray(values)
    if values.ndim == 2:
        values = values.astype(float)
        seen = values[np.isfinite(values)]
        low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 0.0)
        far = 3 * float(np.median(seen)) if seen.size else 0.0
        high, more = (far, " or more") if low < far < high else (high, "")
        scaled = np.clip((values - low) / ((high - low) or 1.0), None, 1.0)
        values = (255 * np.nan_to_num(scaled, nan=1.0, posinf=1.0, neginf=0.0)).astype(np.uint8)
        title = f"{title}, black {low:.4g} to white {high:.4g}{more}"
    file = io.BytesIO()
    Image.fromarray(values).save(file, "png")
    data = base64.b64encode(file.getvalue()).decode()
    text = html.escape(title)
    style = f"max-width:min({MAX_WIDTH}px, 100%);image-rendering:pixelated"
    image = f'<img src="data:image/png;base64,{data}" alt="{text}" style="{style}">'
    return f'<figure style="display:inline-block;margin:4px">{image}<figcaption>{text}</figcaption></figure>'


def frame(address: str, height: int = 600) -> str:
    """Return a page of a server, embedded, and its address for browsers that cannot show it."""
    url = html.escape(address, quote=True)
    style = f"width:100%;height:{height}px;border:1px solid #8888"
    return f'<iframe src="{url}" style="{style}"></iframe><p><a href="{url}" target="_blank">{url}</a></p>'
