"""All measurements one after the other, and at the end every budget with its goal, the figure and the verdict.

    make perf
    python perf/run.py --only volumes --only cluster      some of them
    python perf/run.py --markdown                         the table as docs/figures.md carries it

A script that fails costs its own figures, not those of the others; the run then ends with 1. A budget that is missed
does not: figures are of this machine as it is now. Programs start with their bytecode, as installed ones do: it is kept
for the run, also where PYTHONDONTWRITEBYTECODE is set.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from budgets import BUDGETS, FIGURES_FILE, Budget
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent
SCRIPTS = (
    ("first_second", ()),
    ("apiserver", ()),
    ("apiserver_restart", ()),
    ("scheduling", ()),
    ("volumes", ()),
    ("volume_binding", ()),
    ("nominations", ()),
    ("preemption", ()),
    ("queue_pressure", ()),
    ("scheduler_live", ("--nodes", "5000", "--pods", "10000")),
    ("volumes_live", ()),
    ("peers", ()),
    ("cluster", ()),
    ("chain_writes", ()),
    ("csinode_updates", ()),
    ("simulate", ()),
    ("pending", ()),
    ("dashboard", ()),
)
"""In the order they run; small programs first, so that one sees soon whether the machine is idle."""

Figures = dict[str, dict[str, Any]]


def read(file: Path) -> Figures:
    return {found["key"]: found for found in map(json.loads, file.read_text().splitlines())}


def row(budget: Budget, figures: Figures) -> tuple[str, str, str, str]:
    """What, goal, figure and verdict, as they are printed."""
    goal = f"{'≥' if budget.at_least else '≤'} {budget.goal:,g} {budget.unit}"
    found = figures.get(budget.key)
    if found is None:
        return budget.what, goal, "", f"not measured (perf/{budget.script}.py)"
    if found["value"] is None:
        return budget.what, goal, "", f"not measured: {found['note']}"
    value = found["value"]
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    note = f" ({found['note']})" if found["note"] else ""
    return budget.what, goal, f"{shown} {budget.unit}{note}", "met" if budget.is_met_by(value) else "missed"


def show(figures: Figures, *, markdown: bool) -> None:
    rows = [row(budget, figures) for budget in BUDGETS]
    if markdown:
        print("| what | goal | figure | verdict |\n| --- | --- | --- | --- |")
        for cells in rows:
            print("| " + " | ".join(cells) + " |")
        return
    table = Table("what", "goal", "figure", "verdict", title="Budgets")
    for cells in rows:
        table.add_row(*cells, style="" if cells[-1] == "met" else "yellow")
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name, _ in SCRIPTS]
    options.add_argument("--only", action="append", choices=names, help="this script alone; may be given again")
    options.add_argument("--markdown", action="store_true", help="the table in Markdown")
    given = options.parse_args()
    failed = []
    with tempfile.TemporaryDirectory(prefix="perf") as folder:
        file = Path(folder, "figures.jsonl")
        file.touch()
        environment = {**os.environ, FIGURES_FILE: str(file), "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode"))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for name, arguments in SCRIPTS:
            if given.only and name not in given.only:
                continue
            print(f"\n== perf/{name}.py {' '.join(arguments)}", flush=True)
            script = FOLDER / f"{name}.py"
            began_at = time.monotonic()
            code = subprocess.run([sys.executable, str(script), *arguments], env=environment, check=False).returncode
            print(f"== {time.monotonic() - began_at:,.0f} s", flush=True)
            if code:
                failed.append(f"perf/{name}.py ended with {code}")
        print(flush=True)
        show(read(file), markdown=given.markdown)
    for line in failed:
        print(f"error: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
