"""Plots of what a policy was trained with beside what a log has, one per term."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sensorium.deploy.contract import Contract
from sensorium.doctor.signals import usable
from sensorium.doctor.value_checks import trained_range
from sensorium.figure_files import write_figure
from sensorium.logs import Log


def plot_terms(log: Log, contract: Contract, folder: Path) -> list[Path]:
    """Write one PNG per term: the values of the log over time, with the range of training shaded; returns the files.

    Envs of one log have folders of their own.
    """
    if log.namespaces:
        return [
            path for name in log.namespaces for path in plot_terms(log.in_namespace(name), contract, folder / name[1:])
        ]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    written = []
    for term in contract.observations:
        if term.source != "sensor" or term.topic not in log or term.seen is None:
            continue
        topic = log[term.topic]
        if term.field not in topic or term.conversion not in ("values", "joints"):
            continue
        values = np.asarray(topic[term.field], np.float64).reshape(len(topic), -1)
        values = np.where(usable(values)[:, None], values, np.nan)
        names = list(topic.names) or [f"{term.field} {i}" for i in range(values.shape[1])]
        if term.names and set(term.names) <= set(topic.names):
            values, names = values[:, [topic.names.index(name) for name in term.names]], list(term.names)
        if values.shape[1] != term.size:
            continue
        low, high = trained_range(term)
        shown = min(term.size, 12)
        figure = Figure(figsize=(9, 1.3 * shown + 0.8), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(shown, 1, sharex=True, squeeze=False)[:, 0]
        for i, axis in enumerate(axes):
            axis.axhspan(low[i], high[i], color="tab:green", alpha=0.2, label="training")
            axis.plot(topic.capture, values[:, i], lw=0.8, label="log")
            axis.set_ylabel(names[i], fontsize=8)
        axes[0].legend(loc="upper right", fontsize=8)
        axes[0].set_title(f"{term.name}: {term.topic} {term.field}, {term.unit}", fontsize=10)
        axes[-1].set_xlabel("time of capture, s")
        path = folder / f"{term.name.replace('/', '_').replace('.', '_')}.png"
        write_figure(figure, path, dpi=110)
        written.append(path)
    return written
