"""Fit the IMU of BROAD (Laidig et al. 2021): print the table of docs/fit.md, draw docs/pictures/fit_*.png.

.venv/bin/python docs/gallery/fit.py FOLDER

FOLDER has trials of BROAD as HDF5 files. The first rotation trial is the twin that predicts the fast rotation trial.
"""

import sys
from pathlib import Path

import numpy as np

import sensorium as sn
from sensorium.fit.figures import draw_motion, draw_rest

PICTURES = Path(__file__).parent.parent / "pictures"
ROWS = {
    "gyro.delay": ("latency of the gyroscope, ms", 1e3, ".2f"),
    "acc.delay": ("latency of the accelerometer, ms", 1e3, ".2f"),
    "mag.delay": ("latency of the magnetometer, ms", 1e3, ".1f"),
    "gyro.resolution": ("step of the gyroscope, 1e-3 rad/s", 1e3, ".4f"),
    "acc.resolution": ("step of the accelerometer, 1e-3 m/s²", 1e3, ".3f"),
    "gyro.noise_density": ("noise of the gyroscope, 1e-5 rad/s/√Hz", 1e5, ".1f"),
    "acc.noise_density": ("noise of the accelerometer, 1e-3 m/s²/√Hz", 1e3, ".2f"),
    "mag.noise_density": ("noise of the magnetometer, nT/√Hz", 1e9, ".0f"),
    "gyro.bias": ("bias of the gyroscope at rest, mrad/s", 1e3, ".2f"),
    "gyro.bias_in_motion": ("the same by motion, mrad/s", 1e3, ".2f"),
    "gyro.misalignment": ("scale of the gyroscope (diagonal of the axis matrix)", 1.0, ".4f"),
    "acc.misalignment": ("scale of the accelerometer", 1.0, ".4f"),
    "mag.misalignment": ("scale of the magnetometer, determinant 1", 1.0, ".3f"),
    "acc.bias": ("bias of the accelerometer, m/s²", 1.0, ".3f"),
    "mag.bias": ("hard iron, µT", 1e6, ".2f"),
    "acc.lever": ("lever arm, mm", 1e3, ".1f"),
    "gyro.residual": ("residual of the gyroscope, rad/s", 1.0, ".3f"),
    "acc.residual": ("residual of the accelerometer, m/s²", 1.0, ".3f"),
    "mag.residual": ("residual of the magnetometer, µT", 1e6, ".2f"),
}


def cell(twin: sn.fit.Twin, name: str) -> str:
    """Return an estimate with half the width of its interval, axis by axis."""
    _, factor, form = ROWS[name]
    one = twin.estimates.get(name)
    if one is None or not one.identifiable:
        return "–"
    value, low, high = (np.asarray(each, float) for each in (one.value, *one.interval))
    if value.ndim == 2:
        value, low, high = np.diag(value), np.diag(low), np.diag(high)
    value, half = factor * np.atleast_1d(value), factor * np.atleast_1d(high - low) / 2
    text = ", ".join(f"{each:{form}}" for each in value)
    return text if half.max() == 0 else f"{text} (±{half.max():.2g})"


def main(folder: Path) -> None:
    """Fit all trials, print the table and draw the pictures."""
    trials = sorted(folder.glob("*.hdf5"))
    twins = {}
    for trial in trials:
        log = sn.fit.as_log(trial, units={"mag": "uT"})
        twins[trial] = sn.fit.imu(log, reference=log)
        print(trial.stem, twins[trial].estimates["gyro.residual"].reason, flush=True)
    print("| |", " | ".join(trial.stem[:2] for trial in trials), "|")
    print("| --- |", " | ".join("---" for _ in trials), "|")
    for name, (title, _, _) in ROWS.items():
        print(f"| {title} |", " | ".join(cell(twins[trial], name) for trial in trials), "|")
    first = next(trial for trial in trials if "rotation" in trial.stem)
    fast = next(trial for trial in trials if "fast_rotation" in trial.stem)
    found = sn.fit.validate(twins[first], fast, fast, units={"mag": "uT"})
    print(found)
    draw_rest("gyro", found.rest["gyro"]).savefig(PICTURES / "fit_rest.png", dpi=90)
    draw_motion("gyro", found.motion["gyro"]).savefig(PICTURES / "fit_motion.png", dpi=90)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
