# SPDX-License-Identifier: Apache-2.0
"""What came of a training: figures, a table, a picture."""
from __future__ import annotations

import html
import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


class Result:
    """The figures of a run.  `result["samples"]` or `result.samples`; `result.json` has all of them.

    `curve` lists the evaluations: epochs, seconds, loss, accuracy of each."""

    def __init__(self, figures: Mapping[str, Any], curve: Sequence[Mapping[str, float]] = ()):
        self.json: Dict[str, Any] = dict(figures)
        self.curve: List[Dict[str, float]] = [dict(row) for row in curve]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "json":
            raise AttributeError(name)
        try:
            return self.json[name]
        except KeyError:
            raise AttributeError(f"a result has no {name}; it has {', '.join(sorted(self.json))}") from None

    def __getitem__(self, name: str) -> Any:
        return self.json[name]

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *self.json})

    def rows(self) -> List[Tuple[str, str]]:
        """The table: a title and its text in each row."""
        j = self.json
        out = [("strategy", f"{j.get('strategy')}, {j.get('workers')} workers, {j.get('parameters')} parameters, "
                f"seed {j.get('seed')}")]
        for name in ("loss", "accuracy"):
            if isinstance(j.get(name), (int, float)):
                out.append((name, _number(float(j[name]))))
        out.append(("work", f"{_number(j.get('epochs'))} epochs, {j.get('steps')} steps, {_number(j.get('updates'))} "
                    f"updates, {j.get('samples')} samples"))
        if j.get("seconds") is not None:
            rate = float(j.get("samples_per_second") or 0)
            out.append(("time", f"{_number(float(j['seconds']))} s, {_number(rate)} samples/s"))
        staleness = j.get("staleness")
        if isinstance(staleness, Mapping) and staleness.get("mean") is not None:
            out.append(("staleness", f"mean {_number(staleness['mean'])}, max {_number(staleness.get('max'))}"))
        if j.get("interrupted"):
            out.append(("note", "stopped before its end"))
        for name, title in (("parameters_digest", "digest"), ("checkpoint", "checkpoint")):
            if j.get(name):
                out.append((title, str(j[name])))
        return out

    def __repr__(self) -> str:
        return "\n".join(f"{title:<12} {text}" for title, text in self.rows())

    def _repr_html_(self) -> str:
        points = [(row["epochs"], row["loss"]) for row in self.curve]
        return _table(self.rows()) + _picture(points, "epochs", "loss")

    def to_pandas(self) -> Any:
        """The evaluations as a DataFrame."""
        import pandas
        return pandas.DataFrame(self.curve)


def _table(rows: Sequence[Tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th style='text-align:left'>{html.escape(a)}</th><td style='text-align:left'>{html.escape(b)}"
                    "</td></tr>" for a, b in rows)
    return f"<table>{cells}</table>"


def _picture(points: Sequence[Tuple[float, float]], x: str, y: str) -> str:
    """A curve as SVG; nothing for fewer than two points."""
    points = [p for p in points if math.isfinite(p[0]) and math.isfinite(p[1])]
    if len(points) < 2:
        return ""
    points = points[::max(1, len(points) // 500)]
    left, right = min(p[0] for p in points), max(p[0] for p in points)
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    wide, tall = (right - left) or 1.0, (high - low) or 1.0
    line = " ".join(f"{50 + 420 * (a - left) / wide:.1f},{160 - 140 * (b - low) / tall:.1f}" for a, b in points)
    return ("<svg width='500' height='200' font-size='11' font-family='sans-serif'>"
            "<path d='M50 20V160H470' fill='none' stroke='#888'/>"
            f"<polyline points='{line}' fill='none' stroke='#1f6fb2' stroke-width='1.5'/>"
            f"<text x='46' y='24' text-anchor='end'>{high:.4g}</text><text x='46' y='160' text-anchor='end'>{low:.4g}</text>"
            f"<text x='50' y='178'>{left:.4g}</text><text x='470' y='178' text-anchor='end'>{right:.4g}</text>"
            f"<text x='260' y='192' text-anchor='middle'>{html.escape(x)}</text>"
            f"<text x='54' y='14'>{html.escape(y)}</text></svg>")


def html_of_run(run: Any, curve: Sequence[Tuple[float, float, float]]) -> str:
    rows: List[Tuple[str, str]] = []
    for line in repr(run).split("\n"):
        title, _, text = line.partition(" ")
        rows.append((title, text.strip()))
    timed = [(now, loss) for _, now, loss in curve]
    unit: Optional[str] = "virtual seconds" if run._facts is not None and run._facts.simulated else "seconds"
    return _table(rows) + _picture(timed, unit or "", "loss of the steps")
