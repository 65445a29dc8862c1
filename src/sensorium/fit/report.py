"""``report``: one HTML or PDF file about a fitted sensor, with all figures inside; and the figures as PNG files."""

from __future__ import annotations

import base64
import html
import io
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.files import made_folder, write_whole
from sensorium.fit import figures
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.signal_validation import channels_of, unit_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sensorium.fit.validation import TwinValidation

_DPI = 110
_PDF_WIDTH = 112
"""Characters per line of the text pages of a PDF file."""
_PDF_LINES = 80
"""Lines per page."""
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.6em; } h2 { font-size: 1.25em; margin-top: 2em; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { border-bottom: 1px solid #ddd; padding: 3px 8px; text-align: left; vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; white-space: pre; }
td.unit, td.name { white-space: nowrap; } figcaption { color: #555; font-size: 13px; }
img { max-width: 100%; } figure { margin: 1em 0; }
.yes { color: #176f2c; font-weight: 600; } .no { color: #a4161a; font-weight: 600; }
.problem { background: #fff6e0; border-left: 4px solid #e0a000; padding: 4px 10px; margin: 6px 0; }
code { background: #f3f3f3; padding: 1px 4px; }
"""


@checked
def report(twin: Twin, path: str | Path, validation: TwinValidation | None = None, pictures: bool = True) -> list[Path]:
    """Write a report about a fitted sensor: problems, estimates with intervals, and the comparison with its twin.

    Args:
        twin: the fitted sensor, with its log.
        path: file that ends in .html or .pdf. It needs no other file and no network.
        validation: comparison of the twin with a log (:func:`validate`). Default: none.
        pictures: whether to write the figures as PNG files too, into a folder beside the report: NAME_figures.

    Returns:
        The files that were written, the report first.

    Raises:
        OptionError: the name of the file has another end.
        DatasetError: a file cannot be written.

    Example:
        >>> sn.fit.report(twin, "my_imu.html", sn.fit.validate(twin))
    """
    file = Path(path)
    if file.suffix not in (".html", ".pdf"):
        raise OptionError(f"a report must end in .html or .pdf, got {str(path)!r}")
    drawn = draw_all(twin, validation)
    images = {name: _png(figure) for name, figure in drawn.items()}
    data = page(twin, images, validation).encode() if file.suffix == ".html" else _pdf(twin, drawn, validation)
    folder = file.with_name(f"{file.stem}_figures")
    written = [file]
    with made_folder(file.parent, file), made_folder(folder) if pictures else nullcontext():
        write_whole(file, data)
        for name, image in images.items() if pictures else ():
            write_whole(folder / f"{name}.png", image)
            written.append(folder / f"{name}.png")
    return written


def draw_all(twin: Twin, validation: TwinValidation | None = None) -> dict[str, Figure]:
    """Return name -> figure of everything that the twin and its validation have."""
    drawn: dict[str, Figure | None] = {}
    units = {name: unit_of(twin, name) for name in (twin.log.channels if twin.log is not None else ())}
    if twin.log is not None:
        channels = [name for name in channels_of(twin) if name in twin.log.channels]
        drawn["log"] = figures.draw_log(twin.log, channels, units)
        drawn["estimates"] = figures.draw_estimates(
            twin, {name: prefix for name, prefix in channels_of(twin).items() if name in channels}
        )
        if validation is None:
            drawn["allan"] = figures.draw_allan(twin.log, channels, units)
    if validation is not None:
        drawn |= {f"{name}_rest": figures.draw_rest(name, found, units) for name, found in validation.rest.items()}
        drawn |= {
            f"{name}_motion": figures.draw_motion(name, found, units) for name, found in validation.motion.items()
        }
    return {name: figure for name, figure in drawn.items() if figure is not None}


def page(twin: Twin, images: dict[str, bytes], validation: TwinValidation | None = None) -> str:
    """Return the HTML page of a report."""
    quote = html.escape
    source = "arrays" if twin.log is None else Path(twin.log.source).name
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{quote(twin.kind)}: {quote(source)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Sensor twin: {quote(twin.kind)}</h1>",
        f"<p>{quote(_summary(twin, source))}</p>",
    ]
    if twin.problems:
        parts.append("<h2>Problems of the log</h2>")
        parts += [
            f"<div class='problem'><b>{quote(one.name)}</b>: {quote(one.message)}.<br>"
            f"{quote(_sentence(one.fix))} {quote(one.consequence)}</div>"
            for one in twin.problems
        ]
    if validation is not None:
        parts.append("<h2>Does the twin read like the sensor?</h2>")
        parts.append(
            f"<p>Fitted on {quote(_short(validation.fitted_on))}, simulated in a scene, and compared with "
            f"{quote(_short(validation.tested_on))}, which the fit did not use. {_count(validation)}</p>"
            "<table><tr><th></th><th>channel</th><th>property</th><th>finding</th></tr>"
        )
        order = list(dict.fromkeys(one.channel for one in validation.verdicts))
        parts += [
            f"<tr><td class='{'yes' if one.holds else 'no'}'>{'yes' if one.holds else 'no'}</td>"
            f"<td class='name'>{quote(figures.title_of(one.channel))}</td><td>{quote(one.subject)}</td>"
            f"<td>{quote(one.text)}</td></tr>"
            for one in sorted(validation.verdicts, key=lambda one: order.index(one.channel))
        ]
        parts.append("</table>")
        parts += [f"<p>{quote(_sentence(note))}</p>" for note in validation.notes]
    parts += [
        "<h2>Estimates</h2><p>What the log identifies, with 95 % intervals. One line per axis or row of a matrix.</p>",
        _table(twin),
        *_unknown(twin),
        "<h2>Figures</h2>",
    ]
    parts += [
        f"<figure><img alt='{quote(name)}' src='data:image/png;base64,{base64.b64encode(data).decode()}'>"
        f"<figcaption>{quote(figures.caption_of(name))}</figcaption></figure>"
        for name, data in images.items()
    ]
    parts.append("<h2>Preset</h2><p>Options of the simulated sensor, as <code>twin.save(path)</code> writes them:</p>")
    parts.append(f"<details><summary>options</summary><pre>{quote(_options(twin))}</pre></details></body></html>")
    return "\n".join(parts)


def _summary(twin: Twin, source: str) -> str:
    if twin.log is None:
        return f"{source}."
    log = twin.log
    known = sum(one.identifiable for one in twin.estimates.values())
    text = f"{source}: {len(log)} samples in {log.duration:.1f} s at {log.rate:.4g} Hz, SHA-256 {log.hash[:16]}…. "
    text += f"{known} of {len(twin.estimates)} parameters are identified. "
    return text + f"Sensorium {twin.provenance.get('version', '')}, {str(twin.provenance.get('date', ''))[:10]}."


def _count(validation: TwinValidation) -> str:
    held = sum(one.holds for one in validation.verdicts)
    return f"The twin has {held} of {len(validation.verdicts)} properties of the log." if validation.verdicts else ""


def _table(twin: Twin) -> str:
    """Return the table of the identified parameters, those of the sensor as a whole first."""
    quote = html.escape
    rows = ["<table><tr><th>parameter</th><th>estimate</th><th>95 % interval</th><th>unit</th><th>note</th></tr>"]
    for one in sorted(twin.estimates.values(), key=lambda one: "." in one.name):
        if not one.identifiable:
            continue
        lines = list(zip(_lines(one.value), _intervals(one), strict=True))
        lines = lines[:1] if len(set(lines)) == 1 else lines  # all axes alike
        value, interval = ("\n".join(column) for column in zip(*lines, strict=True))
        rows.append(
            f"<tr><td>{quote(one.name)}</td>"
            f"<td class='number'>{quote(value)}</td>"
            f"<td class='number'>{quote(interval)}</td>"
            f"<td class='unit'>{quote(one.unit)}</td><td>{quote(one.reason)}</td></tr>"
        )
    return "\n".join([*rows, "</table>"])


def _unknown(twin: Twin) -> list[str]:
    """Return the table of the parameters that the log does not identify, grouped by the reason."""
    quote, reasons = html.escape, _reasons(twin)
    if not reasons:
        return []
    rows = [f"<tr><td>{quote(', '.join(names))}</td><td>{quote(reason)}</td></tr>" for reason, names in reasons.items()]
    head = "<h2>Not identified</h2><p>Parameters that the log does not show. The preset does not set them.</p>"
    return [head, "<table><tr><th>parameters</th><th>why</th></tr>", *rows, "</table>"]


def _reasons(twin: Twin) -> dict[str, list[str]]:
    """Return reason -> parameters that the log does not identify, with their upper bounds."""
    reasons: dict[str, list[str]] = {}
    for one in twin.estimates.values():
        if not one.identifiable:
            bound = np.asarray(one.value, float)
            limit = f" (at most {bound.max():.2g} {one.unit})" if np.isfinite(bound).all() and bound.max() > 0 else ""
            reasons.setdefault(one.reason, []).append(one.name + limit.replace(" )", ")"))
    return reasons


def _intervals(one: Estimate) -> list[str]:
    """Return one line of text per axis; elements of a matrix have their half-widths."""
    low, high = (np.asarray(side, float) for side in one.interval)
    if low.ndim == 2:
        return ["  ".join(f"±{half:.2g}" for half in row) for row in (high - low) / 2]
    return [" … ".join(ends) for ends in zip(_lines(low), _lines(high), strict=True)]


def _lines(value: ArrayLike) -> list[str]:
    """Return one line of text per axis; a row of a matrix is one line."""
    rows = np.atleast_1d(np.asarray(value, float))
    return ["  ".join(f"{one:.5g}" for one in np.atleast_1d(row)) for row in rows]


def _options(twin: Twin) -> str:
    from sensorium.fit.preset_file import text_of

    return text_of(twin).partition("\nprovenance:")[0]


def _short(text: str) -> str:
    """Return a text without the folders of the path at its end."""
    start, _, path = text.rpartition(" ")
    return f"{start} {Path(path).name}".strip() if "/" in path else text


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    return buffer.getvalue()


def _pdf(twin: Twin, drawn: dict[str, Figure], validation: TwinValidation | None) -> bytes:
    """Return a PDF file: pages of text, then one page per figure."""
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure as MatplotlibFigure

    lines = _pdf_lines(twin, validation)
    buffer = io.BytesIO()
    with PdfPages(buffer) as pages:
        for start in range(0, len(lines), _PDF_LINES):
            sheet = MatplotlibFigure(figsize=(8.3, 11.7))
            for k, line in enumerate(lines[start : start + _PDF_LINES]):
                heading = line.startswith("# ")
                sheet.text(
                    0.05,
                    0.97 - 0.94 * k / _PDF_LINES,
                    line.removeprefix("# "),
                    family="monospace",
                    fontsize=9 if heading else 7,
                    weight="bold" if heading else "normal",
                    va="top",
                    parse_math=False,
                )
            pages.savefig(sheet)
        for figure in drawn.values():
            pages.savefig(figure)
    return buffer.getvalue()


def _pdf_lines(twin: Twin, validation: TwinValidation | None) -> list[str]:
    """Return the text of a PDF file; headings begin with "# "."""
    from textwrap import wrap

    source = "arrays" if twin.log is None else Path(twin.log.source).name
    lines = [f"# Sensor twin: {twin.kind}", *wrap(_summary(twin, source), _PDF_WIDTH)]
    if twin.problems:
        lines += ["", "# Problems of the log"]
        for problem in twin.problems:
            lines += wrap(f"{problem} {problem.consequence}", _PDF_WIDTH, subsequent_indent="    ")
    if validation is not None:
        lines += ["", "# Does the twin read like the sensor?"]
        lines.append(f"fitted on {_short(validation.fitted_on)}, tested on {_short(validation.tested_on)}")
        for text in (*map(str, validation.verdicts), *validation.notes):
            lines += wrap(text, _PDF_WIDTH, subsequent_indent="    ")
    lines += ["", "# Estimates", f"{'parameter':24}{'unit':11}{'estimate':38}95 % interval"]
    for one in sorted(twin.estimates.values(), key=lambda one: "." in one.name):
        if one.identifiable:
            rows = list(zip(_lines(one.value), _intervals(one), strict=True))
            rows = rows[:1] if len(set(rows)) == 1 else rows  # all axes alike
            first = f"{one.name:24}{one.unit:11}"
            lines += [f"{'' if k else first:35}{value:38}{interval}" for k, (value, interval) in enumerate(rows)]
            lines += wrap(one.reason, _PDF_WIDTH, initial_indent="    ", subsequent_indent="    ")
    if reasons := _reasons(twin):
        lines += ["", "# Not identified"]
    for reason, names in reasons.items():
        lines += wrap(f"{', '.join(names)}: {reason}", _PDF_WIDTH, subsequent_indent="    ")
    return lines
