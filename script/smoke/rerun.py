"""Extra rerun: a dataset is exported to files of Rerun's viewer.

python -P script/smoke/rerun.py DATASET
"""

import sys
import tempfile
from pathlib import Path

import sensorium as sn

with tempfile.TemporaryDirectory() as folder:
    out = sn.datasets.export(sys.argv[1], "rerun", Path(folder) / "rerun")
    assert list(out.rglob("*.rrd")), "no .rrd file was written"
