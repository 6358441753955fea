"""The feature gates, from the one table of them."""

from __future__ import annotations

from reference import code, table
from tonnage.gates import Gate, Gates

HEAD = """\
# Feature gates

`--feature-gates A=true,B=false`, of every command that decides or serves. All are on by default, and none is locked: Tonnage
exists to try these enhancements, with and without. With a gate off the API behaves as upstream's does with it off (new values
are dropped, stored ones are kept), and the scheduler decides as kube-scheduler 1.36 does. The stage is that of Kubernetes
1.36. `AllAlpha` and `AllBeta` stand for every gate of a stage that is not set by name; an unknown name is an error.

What a real API server needs to have switched on is another question: [versions](../versions.md).

"""


def page() -> str:
    rows: list[tuple[object, ...]] = [
        (
            code(name),
            gate.stage.lower() if gate.stage != "GA" else "GA",
            "on",
            f"KEP-{gate.kep}",
            gate.meaning,
            _upstream(gate),
        )
        for name, gate in Gates.table().items()
    ]
    return HEAD + table(
        ("gate", "stage", "default", "enhancement", "what it opens", "in Kubernetes' own servers"), rows
    )


def _upstream(gate: Gate) -> str:
    if gate.successor:
        return "alpha from 1.21 until its successor came; unknown to 1.36"
    return "; ".join(f"{release} {stage}" for release, stage in gate.releases) or "in no release yet"
