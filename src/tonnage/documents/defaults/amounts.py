"""Resource lists in the form they are kept in: thousandths are the finest step, anything finer is rounded up."""

from __future__ import annotations

from tonnage.quantity import Quantity


def round_amounts(amounts: dict[str, str] | None) -> None:
    """Round each amount up to thousandths and write it in canonical form. Mirrors SetDefaults_ResourceList."""
    if amounts is not None:
        for name, text in amounts.items():
            amounts[name] = str(Quantity.of(text).round_up_to_milli())
