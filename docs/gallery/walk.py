"""Draw docs/pictures/walk.png: a policy that PPO trained for 52 s on a GPU walks on the CPU.

.venv/bin/python docs/gallery/walk.py
"""

from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

from sensorium.training import play
from sensorium.worlds.snapshot import save_image

ROOT = Path(__file__).parent.parent.parent
IMAGES = (25, 75, 125)
"""Numbers of the images, 25 per second."""

images = list(islice(play(ROOT / "tests" / "data" / "walk"), 1 + max(IMAGES)))
robot = [images[number][110:470, 140:500] for number in IMAGES]
plots = np.asarray(Image.fromarray(images[-1][:, 640:]).resize((480, 360), Image.Resampling.LANCZOS))
save_image(np.concatenate((*robot, plots), axis=1), ROOT / "docs" / "pictures" / "walk.png")
