"""``sensorium doctor``: check a robot's log against physics and against a policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import sensorium as sn
from sensorium.cli.arguments import bad_input, check_output, default


@dataclass
class Doctor:
    """Check a robot's log against physics and a policy.

    The policy is compared by its contract: what it was trained with. One line per check: verdict, evidence and fix.

    Exit code: 0 if all checks passed, 1 if one failed, 2 if a file cannot be used or has nothing to check.

    Examples:
        sensorium doctor policy.onnx real.mcap --plots out/doctor
        sensorium doctor real.mcap
        sensorium doctor log.hdf5 --units mag=uT
        sensorium doctor policy.onnx real.mcap --topics robot_imu=/imu/data /robot_wheels=/joint_states
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """The policy (.onnx with its contract) and the log, or the log alone: MCAP, HDF5, NPZ or CSV."""
    plots: Annotated[Path | None, default("none")] = None
    """Folder for plots of every term of the policy: the log and the range of training."""
    json: Annotated[Path | None, default("none")] = None
    """File for the findings as JSON."""
    units: Annotated[tuple[str, ...], default("SI")] = ()
    """Units of fields in HDF5, NPZ and CSV, e.g. mag=uT gyro=deg/s."""
    topics: Annotated[tuple[str, ...], default("by name")] = ()
    """Topics of the log, as SENSOR=TOPIC or POLICY_TOPIC=TOPIC."""
    partial: bool = False
    """Read what is whole of a log that is damaged or ends too early."""

    def run(self) -> int:
        """Examine the log and print the findings."""
        from sensorium.doctor.examine import examine, map_topics
        from sensorium.doctor.plots import plot_terms
        from sensorium.doctor.tables import read_any
        from sensorium.files import made_folder, write_whole

        if not 1 <= len(self.files) <= 2:
            raise sn.OptionError(f"give a policy and a log, or a log alone, got {len(self.files)} files")
        if any("=" not in each for each in self.units):
            raise sn.OptionError(f"units must be FIELD=UNIT, e.g. mag=uT, got {' '.join(self.units)}")
        if any("=" not in each for each in self.topics):
            raise sn.OptionError(f"topics must be SENSOR=TOPIC, got {' '.join(self.topics)}")
        policy, path = (None, self.files[0]) if len(self.files) == 1 else self.files
        if path.suffix == ".onnx":
            raise sn.OptionError(f"{path} is a policy; give the log behind it: sensorium doctor {path} real.mcap")
        if self.plots is not None and policy is None:
            raise sn.OptionError("plots need a policy, whose ranges of training they show")
        check_output("--plots", self.plots)
        if self.json is not None and self.json.exists() and not self.json.is_file():
            raise sn.OptionError(f"--json must be a file, and {self.json} is a folder or a device; add a name")
        check_output("--json", None if self.json is None else self.json.parent)
        with bad_input():
            contract = None
            if policy is not None:
                from sensorium.deploy import read_contract

                contract = read_contract(policy)
            log = read_any(path, self.partial, dict(each.split("=", 1) for each in self.units) or None)
            contract = map_topics(contract, dict(each.split("=", 1) for each in self.topics), log)
        report = examine(log, contract)
        print(report)
        if self.json is not None:
            with made_folder(self.json.parent, self.json):
                write_whole(self.json, report.to_json().encode())
        if self.plots is not None and contract is not None:
            for written in plot_terms(log, contract, self.plots):
                print(written)
        return 2 if report.is_empty else 0 if report.is_healthy else 1
