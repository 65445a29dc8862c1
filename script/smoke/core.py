"""Core: README's first block prints the output that README shows, and a small dataset is generated.

python -P script/smoke/core.py DATASET    # DATASET: folder to generate the dataset in
"""

import contextlib
import io
import re
import sys
from pathlib import Path

import sensorium as sn

README = Path(__file__).parents[2] / "README.md"


def readme_block() -> None:
    """Run README's first Python block and compare its output with the block below it."""
    code, shown = re.search(r"```python\n(.*?)```\n```\n(.*?)```", README.read_text(), re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(README), "exec"), {"__name__": "readme"})
    assert printed.getvalue() == shown, f"README shows\n{shown}\nbut the block prints\n{printed.getvalue()}"


def dataset(folder: str) -> None:
    """Generate one episode without cameras, for the smoke tests of the export extras."""
    from sensorium.generation import GenerateOptions, generate

    generate(GenerateOptions(task="pick", episodes=1, envs=1, seed=3), folder)
    assert sn.datasets.validate(folder).valid


if __name__ == "__main__":
    readme_block()
    dataset(sys.argv[1])
