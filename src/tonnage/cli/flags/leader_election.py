"""When and how copies of a program elect a leader: what the flags of `leases.toml` ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tonnage.scheduling.configuration.configuration import LeaderElection


@dataclass(frozen=True, slots=True)
class Election:
    is_on: bool
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    release_on_cancel: bool = True


def check_times(times: Election | LeaderElection) -> None:
    """Check that lease duration > renew deadline > 1.2 * retry period, as client-go requires. Raises UsageError."""
    from tonnage.client.leader import check_retry_period
    from tonnage.client.leadership import InvalidLeaseTimes, check_lease_times

    try:
        check_lease_times(lease_duration_s=times.lease_duration_s, renew_deadline_s=times.renew_deadline_s)
        check_retry_period(renew_deadline_s=times.renew_deadline_s, retry_period_s=times.retry_period_s)
    except InvalidLeaseTimes as exc:
        hint = f" ({exc.hint})" if exc.hint else ""
        raise click.UsageError(
            f"{exc.message}{hint}: see --leader-elect-lease-duration, --leader-elect-renew-deadline and "
            "--leader-elect-retry-period"
        ) from exc
