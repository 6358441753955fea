"""The rules of every kind, and the table of their strategies.

A kind's file has its `Strategy` (`documents/strategy.py`): defaults and validation. Defaults change a document in place
and are idempotent: they run whenever a document is decoded, before validation. Rules that several kinds share stand in
`documents/validation`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from tonnage.clock import Clock
from tonnage.documents.strategy import Strategy
from tonnage.gates import Gates
from tonnage.objects.resources import RESOURCES


@cache
def _by_name() -> dict[str, Any]:
    """A kind's strategy is found by name in the modules of this package: `PodStrategy` for Pod."""
    modules = [import_module(module.name) for module in walk_packages(__path__, f"{__name__}.")]
    return {name: each for module in modules for name, each in vars(module).items() if name.endswith("Strategy")}


def strategies(gates: Gates, clock: Clock) -> dict[tuple[str, str], Strategy]:
    """(group, plural) -> the strategy of that resource under these gates."""
    return {(row.group, row.plural): _by_name()[f"{row.kind}Strategy"](row, gates, clock) for row in RESOURCES}
