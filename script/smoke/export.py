"""Extra export: a dataset becomes a LeRobot and a Minari one.

python -P script/smoke/export.py DATASET
"""

import sys
import tempfile
from pathlib import Path

import sensorium as sn

with tempfile.TemporaryDirectory() as folder:
    for kind in ("lerobot", "minari"):
        out = sn.datasets.export(sys.argv[1], kind, Path(folder) / kind)
        assert list(out.rglob("sensorium.json")), f"the {kind} dataset has no sensorium.json"
