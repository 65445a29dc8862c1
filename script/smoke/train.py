"""Extra train: a SAC brain is created and saved, a TensorBoard log is written, the PettingZoo view imports."""

import tempfile
from pathlib import Path

import numpy as np
from gymnasium import spaces

import sensorium as sn
from sensorium.tasks import parallel
from sensorium.training.log import TrainingLog

space = spaces.Dict(x=spaces.Box(-1, 1, (3,), np.float32))
brain = sn.SACMLPBrain(space, spaces.Box(-1, 1, (2,), np.float32), hidden=(8,))
brain.observe({"x": np.zeros((4, 3), np.float32)})
with tempfile.TemporaryDirectory() as folder:
    brain.save(Path(folder) / "brain")
    log = TrainingLog(Path(folder), 0, enabled=True)
    log.add(1, {"reward": 1.0})
    log.close()
    assert list(Path(folder).rglob("events.*")), "TensorBoard's file was not written"
assert parallel.ParallelView
