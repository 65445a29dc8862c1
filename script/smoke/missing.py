"""Core alone: a call that needs an extra raises an error that names this extra.

python -P script/smoke/missing.py DATASET
"""

import sys
import tempfile
from pathlib import Path

import sensorium as sn


def names_extra(extra: str, call) -> None:
    """Check that a call without the extra raises an error that says how to install it."""
    message = "no error was raised (is the extra installed?)"
    try:
        call()
    except sn.SensoriumError as error:
        message = str(error)
    assert f"sensorium[{extra}]" in message, f"a call that needs the extra {extra} does not name it: {message}"


def missing_extras(folder: str) -> None:
    """Use each extra that is not installed."""
    from gymnasium import spaces

    from sensorium.generation import GenerateOptions, generate
    from sensorium.training.log import TrainingLog

    scene = sn.Scene()
    scene.add_object(sn.Plane())
    scene.build()
    photo = sn.Scene()
    photo.add_object(sn.Plane())
    photo.add_sensor(sn.RaytracerCamera(pos=(1, 0, 1), lookat=(0, 0, 0), resolution=(16, 16)))
    numbers = spaces.Box(-1, 1, (2,))
    with tempfile.TemporaryDirectory() as empty:
        out = Path(empty)
        names_extra("view", scene.view)
        names_extra("photoreal", lambda: (photo.build(), photo.step()))
        names_extra("train", lambda: sn.SACMLPBrain(spaces.Dict(x=numbers), numbers))
        names_extra("train", lambda: TrainingLog(out, 0, enabled=True))
        names_extra("cluster", lambda: generate(GenerateOptions(task="pick"), out / "cluster", cluster="local"))
        (out / "empty.onnx").touch()
        onnx = GenerateOptions(task="balance", policy=str(out / "empty.onnx"))
        names_extra("deploy", lambda: generate(onnx, out / "onnx"))
        for kind, extra in (("lerobot", "export"), ("minari", "export"), ("rerun", "rerun")):
            names_extra(extra, lambda kind=kind: sn.datasets.export(folder, kind, out / kind))


if __name__ == "__main__":
    missing_extras(sys.argv[1])
