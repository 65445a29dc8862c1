"""Every command that writes files can be killed at any moment: a few moments of each; ``script/kills`` tries more."""

import sys

import kill_commands
import pytest
from test_cli import COMMANDS
from test_fuzz import DAY_SEED

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks processes")
QUICK = ("generate", "export")
"""Commands that take at most 2 s of CPU time per moment, on 2026-11-18."""


def test_every_command_is_killed():
    killed = {name.split(" ")[0] for name in kill_commands.COMMANDS}
    assert killed | kill_commands.WRITE_NOTHING == set(COMMANDS)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in kill_commands.COMMANDS]
)
def test_killed_commands_run_again(name):
    assert kill_commands.kill(name, DAY_SEED) is None
