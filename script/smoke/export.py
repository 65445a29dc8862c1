"""Extra export: a dataset is exported to LeRobot and to Minari.

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
