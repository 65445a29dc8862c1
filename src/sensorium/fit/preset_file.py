"""Preset files: a fitted sensor as YAML, which ``sn.presets.load`` and ``--rig`` read, with its provenance."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium.errors import OptionError
from sensorium.files import made_folder, write_whole
from sensorium.options import Options
from sensorium.sensors.channels import short_forms
from sensorium.versions import package_versions

if TYPE_CHECKING:
    from sensorium.fit.estimate import Twin

DIGITS = 6
"""Significant digits of the numbers in a file."""
_HEADER = """\
# {type} fitted to a log by `sensorium fit`. Edit the options as you like.
#
{use}
#
# provenance: the log, and every estimate with its 95 % interval. It has no effect on the sensor.
"""

_USE_SENSOR = """\
# in Python:         scene.add_sensor(sn.presets.load("{file}", link=...))
# as a robot's rig:  sensorium record --robot diffdrive --rig {file} --out runs/a"""
_USE_CHANNEL = (
    '# in Python: sn.presets.load("{file}") is one channel, e.g. sn.IMU(link=..., gyro=sn.presets.load("{file}"))'
)


def save(twin: Twin, path: Path) -> Path:
    """Write a twin as a preset file.

    Args:
        twin: the fitted sensor.
        path: file that ends in .yaml or .yml. Missing folders are created.

    Raises:
        OptionError: the name of the file has another end.
        DatasetError: the file cannot be written.
    """
    if path.suffix not in (".yaml", ".yml"):
        raise OptionError(f"a preset file must end in .yaml, got {str(path)!r}")
    data = text_of(twin, path.name).encode()
    with made_folder(path.parent, path):
        write_whole(path, data)
    return path


def text_of(twin: Twin, file: str = "my_sensor.yaml") -> str:
    """Return the text of the preset file of a twin."""
    import yaml

    from sensorium import yaml_files

    kind = twin.options_type()
    options = _nested(kind, twin.imperfections())
    if "link" in kind.model_fields or "robot" in kind.model_fields:
        content: dict[str, object] = {"sensors": [{"name": twin.kind, "type": kind.__name__, "options": options}]}
        use = _USE_SENSOR
    else:
        content, use = {"imperfections": options}, _USE_CHANNEL
    content["provenance"] = provenance(twin)
    body = yaml.dump(
        content,
        Dumper=yaml_files.Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=118,
    )
    return _HEADER.format(type=kind.__name__, use=use.format(file=file)) + body


def provenance(twin: Twin) -> dict[str, object]:
    """Return where the figures of a twin come from, as plain values: log, version, date, estimates, problems."""
    found: dict[str, object] = {
        "version": package_versions()["sensorium"],
        "date": datetime.now(UTC).date().isoformat(),
    }
    if twin.log is not None:
        found |= {"log": Path(twin.log.source).name, "log_hash": twin.log.hash, "samples": len(twin.log)}
    found |= {name: _plain(value) for name, value in twin.provenance.items()}
    found["estimates"] = {
        name: {
            "value": _plain(one.value),
            "interval": [_plain(one.interval[0]), _plain(one.interval[1])],
            "unit": one.unit,
            "identifiable": bool(one.identifiable),
            **({"reason": one.reason} if one.reason else {}),
        }
        for name, one in twin.estimates.items()
    }
    if twin.problems:
        found["problems"] = [str(problem) for problem in twin.problems]
    return found


def _nested(kind: type[Options], flat: dict[str, Any]) -> dict[str, Any]:
    """Return options with the short forms of channels as mappings: gyro_bias -> gyro: {bias: ...}."""
    forms = short_forms(kind)
    out: dict[str, Any] = {}
    for name, value in flat.items():
        form = forms.get(name)
        if form is None:
            out[name] = _plain(value)
        else:
            out.setdefault(form.channel, {})[form.field] = _plain(value)
    if "max_delay" in out:  # rounding must not bring it below the sum, which is not allowed
        out["max_delay"] = max(out["max_delay"], out.get("delay", 0.0) + out.get("jitter", 0.0))
    return out


def _plain(value: object) -> Any:
    """Return a value as YAML holds it, with numbers rounded to 6 significant digits; NaN and infinity are None."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return str(value)
