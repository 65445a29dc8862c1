"""Extra deploy: an ONNX file generates one episode."""

import base64
import tempfile
from pathlib import Path

import numpy as np

import sensorium as sn
from sensorium.generation import GenerateOptions, generate

MODEL = (
    "CAgSADp5ChwKBHFwb3MKBHplcm8SBmFjdGlvbiIGTWF0TXVsEgVzdGlsbCoeCAIIAhABQgR6ZXJvShAAAAAAAAAA"
    "AAAAAAAAAAAAWhcKBHFwb3MSDwoNCAESCQoDEgFCCgIIAmIZCgZhY3Rpb24SDwoNCAESCQoDEgFCCgIIAkIECgAQEQ=="
)
"""The function ``action = qpos @ 0``, (B, 2) -> (B, 2), as onnx.helper writes it."""

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "still.onnx").write_bytes(base64.b64decode(MODEL))
    options = GenerateOptions(
        task="balance",
        policy=str(folder / "still.onnx"),
        episodes=1,
        envs=1,
        successes_only=False,
        options={"max_steps": 3},
    )
    generate(options, folder / "data")
    assert not np.any(sn.datasets.Dataset(folder / "data")[0]["actions/action"])
