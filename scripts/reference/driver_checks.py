"""The checks of `tonnage driver-check`, from its catalogue."""

from __future__ import annotations

from reference import code, table
from tonnage.driver_check.results import CATALOGUE

HEAD = """\
# Checks of driver-check

What `tonnage driver-check` finds out over a driver's socket, in this order; [what a driver has to do](../drivers/writing-a-driver.md)
says why. Names stay; scripts may rely on them.

"""


def page() -> str:
    rows: list[tuple[object, ...]] = [(code(each.name), each.contract, each.remedy) for each in CATALOGUE.values()]
    return HEAD + table(("check", "the contract", "if it fails"), rows)
