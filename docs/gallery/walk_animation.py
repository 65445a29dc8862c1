"""Make docs/pictures/walk.webp: 20 s of a policy that walks, and what it senses.

The policy is that of docs/gallery/walk.py: PPO trained it for 52 s on a GPU; it walks in MuJoCo on the CPU.

.venv/bin/python docs/gallery/walk_animation.py
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from sensorium.training import play

ROOT = Path(__file__).parent.parent.parent
SECONDS = 20.0
EVERY = 2
"""Of 25 images per second, one of this many is kept."""
SIZE = (720, 270)

frames = []
for number, image in enumerate(play(ROOT / "tests" / "data" / "walk", seconds=SECONDS)):
    if number % EVERY == 0:
        frames.append(Image.fromarray(image).resize(SIZE, Image.Resampling.LANCZOS))
frames[0].save(
    ROOT / "docs" / "pictures" / "walk.webp",
    save_all=True,
    append_images=frames[1:],
    duration=round(1000 * EVERY / 25),
    loop=0,
    quality=25,
    method=4,
)
