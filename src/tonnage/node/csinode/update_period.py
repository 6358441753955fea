"""KEP-4876: whether a driver's attach limit on a node is kept up to date, and how often.

    gate       nodeAllocatableUpdatePeriodSeconds    behaviour
    enabled    set                                   periodic updates, and one when an attach finds no slot
    enabled    not set, or 0                         no updates; the count stays as it was registered
    disabled   set                                   the period is ignored; the count stays
    disabled   not set                               no updates; the count stays

Both halves of the first row hang on the period: without one, a failed attach changes nothing either. And there must be
somebody to ask: a driver that is not installed on the node, or that the cluster does not know, is not updated.
"""

from __future__ import annotations

from tonnage.objects.storage_v1 import CSIDriver


def update_period_s(driver: CSIDriver | None, *, gate_on: bool, is_installed: bool) -> int:
    """Seconds between two periodic updates; 0 is no updates at all, also none when an attach fails."""
    if not gate_on or not is_installed or driver is None:
        return 0
    period_s = driver.spec.node_allocatable_update_period_seconds
    return max(period_s or 0, 0)
