"""What a cluster uses while it runs for long: memory and descriptors of its programs, files and bytes of its folder.

`Meter` looks every few seconds, `rising` says what has not levelled off. Read from /proc and from the folder, so that
nothing has to be added to what is measured.

A line is level when two things hold. The most of the last quarter is hardly more than the most of the third. And the
straight line through the samples of the second half (least squares) rises by hardly more than that in those minutes:
the most of a quarter hides a slow rise under one peak, the straight line does not.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path
from statistics import linear_regression
from typing import Final

import leather

MI: Final = 1 << 20
LONG_S: Final = 40 * 60.0
"""From here on a run is long enough to be judged strictly: what is kept for ten minutes has gone round before the third
quarter begins. In a shorter run the caches are still filling."""
Series = list[tuple[float, float]]
_COLOURS: Final = ("#c62828", "#1565c0", "#2e7d32", "#6a1b9a", "#ef6c00", "#37474f")


@dataclass(frozen=True)
class Slack:
    """What may come on top between the third quarter of a run and the last: a part of it, and so much in any case."""

    part: float
    flat: float

    def of(self, value: float) -> float:
        return value * self.part + self.flat


STRICT_MEMORY: Final = Slack(0.03, 4 * MI)
"""Memory in a long run: a burst of work more or less in a quarter makes as much of a difference."""
SLACK: Final = {
    "memory": Slack(0.10, 12 * MI),
    "descriptors": Slack(0.10, 40),  # connections of a moment in which much was asked at once
    "threads": Slack(0.10, 4),
    "log bytes": Slack(0.10, 4 * MI),  # a log that has just been begun anew, and one that is about to be
    "store bytes": Slack(0.25, 32 * MI),  # history is let go in steps
    "other bytes": Slack(0.25, 4 * MI),
    "files": Slack(0.10, 64),
}


@dataclass
class Meter:
    """Samples by what was measured and of whom."""

    folder: Path
    programs: Sequence[str]
    samples: dict[tuple[str, str], Series] = field(default_factory=lambda: defaultdict(list))
    acts: Series = field(default_factory=list)
    """How many things the people of the run had done by then: no use of the cluster's, and so not judged."""

    def look(self, at_s: float) -> None:
        for program in self.programs:
            for what, value in _of_process(self.folder / "run" / f"{program}.pid").items():
                self.samples[what, program].append((at_s, value))
        for what, value in _of_folder(self.folder).items():
            self.samples[what, "folder"].append((at_s, value))

    def table(self, lasts_s: float) -> str:
        """The most of each quarter of the run, and how the second half rises, in Markdown."""
        heads = ("what", "whose", *(f"{_minutes(lasts_s * n / 4)} min" for n in (1, 2, 3, 4)), "second half")
        rows = [heads, ("---",) * len(heads)]
        for (what, whose), series in sorted(self.samples.items()):
            shown = [_shown(what, value) for value in quarters(series, lasts_s)]
            rise = rise_of(series, lasts_s)
            rows.append((what, whose, *shown, f"{'+' if rise >= 0 else '-'}{_shown(what, abs(rise))}"))
        by_quarter = [0.0, *quarters(self.acts, lasts_s)]
        rows.append(("acts", "people", *(f"{after - before:.0f}" for before, after in pairwise(by_quarter)), ""))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def draw(self, picture: Path) -> None:
        """The memory of each program over the run's minutes, as an SVG."""
        chart = leather.Chart("Resident memory in MB, by minutes")
        lines = [(whose, series) for (what, whose), series in sorted(self.samples.items()) if what == "memory"]
        for (whose, series), colour in zip(lines, cycle(_COLOURS), strict=False):
            points = [(round(at_s / 60, 1), round(value / MI, 1)) for at_s, value in series[:: len(series) // 60 + 1]]
            chart.add_line(points, name=whose, stroke_color=colour)
        most = max((value for _, series in lines for _, value in series), default=0.0)
        chart.add_y_scale(0, 50 * (1 + most // (50 * MI)))
        chart.to_svg(str(picture), 860, 360)
        drawn = re.sub(r"\d+\.\d\d+", lambda number: f"{float(number[0]):.1f}", picture.read_text())
        told = "<title>Resident memory</title><desc>Of each program, in MB, by minutes.</desc>"
        picture.write_text(re.sub(r"(<svg[^>]*>)", rf"\1{told}", drawn, count=1))


def rising(samples: Mapping[tuple[str, str], Series], lasts_s: float) -> list[str]:
    """What was more in the last quarter of a run than in the third, or rose through both, by more than its slack."""
    found = []
    for (what, whose), series in sorted(samples.items()):
        third, last = quarters(series, lasts_s)[2:]
        slack = STRICT_MEMORY if what == "memory" and lasts_s >= LONG_S else SLACK[what]
        if last > third + slack.of(third):
            found.append(f"{what} of {whose} rose from {_shown(what, third)} to {_shown(what, last)}")
        elif (rise := rise_of(series, lasts_s)) > slack.of(third):
            found.append(f"{what} of {whose} rose by {_shown(what, rise)} through the second half")
    return found


def rise_of(series: Series, lasts_s: float) -> float:
    """How much the straight line through the samples of the second half rises from its begin to its end."""
    half = [(at_s, value) for at_s, value in series if at_s >= lasts_s / 2]
    return linear_regression(*zip(*half, strict=True)).slope * lasts_s / 2 if len(half) > 1 else 0.0


def quarters(series: Series, lasts_s: float) -> list[float]:
    """The most of each quarter; a quarter in which nothing was seen counts as nothing."""
    most = [0.0] * 4
    for at_s, value in series:
        number = min(3, int(4 * at_s / lasts_s))
        most[number] = max(most[number], value)
    return most


def _of_process(pid_file: Path) -> dict[str, float]:
    """Resident memory, descriptors and threads; nothing while it is away."""
    with suppress(OSError, ValueError, KeyError):  # KeyError: it has just been killed
        process = Path("/proc") / str(int(pid_file.read_text()))
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return {
            "memory": float(status["VmRSS"].split()[0]) * 1024,
            "descriptors": float(sum(1 for _ in (process / "fd").iterdir())),
            "threads": float(status["Threads"]),
        }
    return {}


def _of_folder(folder: Path) -> dict[str, float]:
    """What stands on the disk, by what it is for. Contents of volumes are the users' and not counted as bytes.

    The audit log is left out: it keeps everything that was asked, which is what the run wants of it.
    """
    found = {"log bytes": 0.0, "store bytes": 0.0, "other bytes": 0.0, "files": 0.0}
    for where, _, names in os.walk(folder):
        part = (*Path(where).relative_to(folder).parts, "")[0]
        what = {"logs": "log bytes", "store": "store bytes"}.get(part, "other bytes")
        for name in names:
            if name.startswith("audit"):
                continue
            with suppress(OSError):  # it went while we looked
                found[what] += (Path(where) / name).lstat().st_blocks * 512
                found["files"] += 1
    return found


def _shown(what: str, value: float) -> str:
    return f"{value / MI:.1f} MB" if what == "memory" or "bytes" in what else f"{value:.0f}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.3g}"
