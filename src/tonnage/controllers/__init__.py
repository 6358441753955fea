"""Controllers: level-based loops that make a cluster what its objects ask for; safe to run twice.

`program` lists them by kube-controller-manager's names and runs them in one process (`tonnage controllers`).
Decisions are pure and stand in `behaviour`; the controllers read and write.
"""

from __future__ import annotations

from typing import Final

PROGRAM: Final = "tonnage-controllers"
