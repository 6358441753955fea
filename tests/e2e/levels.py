"""What a cluster uses while it runs for long: memory and descriptors of its programs, files and bytes of its folder.

`Meter` looks every few seconds, `rising` says what has not levelled off. Read from /proc and from the folder, so that
nothing has to be added to what is measured.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.table import Table

MI: Final = 1 << 20
Series = list[tuple[float, float]]


@dataclass(frozen=True)
class Slack:
    """What may come on top between the third quarter of a run and the last: a part of it, and so much in any case."""

    part: float
    flat: float


SLACK: Final = {
    "memory": Slack(0.10, 12 * MI),
    "descriptors": Slack(0.10, 16),
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

    def look(self, at_s: float) -> None:
        for program in self.programs:
            for what, value in _of_process(self.folder / "run" / f"{program}.pid").items():
                self.samples[what, program].append((at_s, value))
        for what, value in _of_folder(self.folder).items():
            self.samples[what, "folder"].append((at_s, value))

    def table(self, lasts_s: float) -> Table:
        """The most of each quarter of the run."""
        table = Table("what", "whose", *(f"{_minutes(lasts_s * n / 4)} min" for n in (1, 2, 3, 4)))
        for (what, whose), series in sorted(self.samples.items()):
            shown = [_shown(what, value) for value in quarters(series, lasts_s)]
            table.add_row(what, whose, *shown)
        return table


def rising(samples: Mapping[tuple[str, str], Series], lasts_s: float) -> list[str]:
    """What was more in the last quarter of a run than in the third, by more than its slack."""
    found = []
    for (what, whose), series in sorted(samples.items()):
        third, last = quarters(series, lasts_s)[2:]
        slack = SLACK[what]
        if last > third * (1 + slack.part) + slack.flat:
            found.append(f"{what} of {whose} rose from {_shown(what, third)} to {_shown(what, last)}")
    return found


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
    """What stands on the disk, by what it is for. Contents of volumes are the users' and not counted as bytes."""
    found = {"log bytes": 0.0, "store bytes": 0.0, "other bytes": 0.0, "files": 0.0}
    for where, _, names in os.walk(folder):
        part = (*Path(where).relative_to(folder).parts, "")[0]
        what = {"logs": "log bytes", "store": "store bytes"}.get(part, "other bytes")
        for name in names:
            with suppress(OSError):  # it went while we looked
                found[what] += (Path(where) / name).lstat().st_blocks * 512
                found["files"] += 1
    return found


def _shown(what: str, value: float) -> str:
    return f"{value / MI:.1f} MB" if what == "memory" or "bytes" in what else f"{value:.0f}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.3g}"
