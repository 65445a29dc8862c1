"""Extra cluster: a local Ray cluster of one process generates one episode."""

import tempfile

import sensorium as sn
from sensorium.generation import GenerateOptions, generate

with tempfile.TemporaryDirectory() as folder:
    generate(GenerateOptions(task="pick", episodes=1, envs=1, seed=3), folder, cluster="local")
    assert sn.datasets.validate(folder).valid
