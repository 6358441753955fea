"""Flags of leader election, as component-base has them: --leader-elect and --leader-elect-*."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from tonnage.cli.options import DURATION, Option, options

if TYPE_CHECKING:
    from tonnage.scheduling.configuration.configuration import LeaderElection


@dataclass(frozen=True, slots=True)
class Election:
    is_on: bool
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    release_on_cancel: bool = True


lease_time_options: Final = options(
    *(
        click.option(f"--leader-elect-{name}", type=DURATION, default=None, help=f"{help}  [default: {default}]")
        for name, default, help in (
            ("lease-duration", "15s", "How long the lease lasts."),
            ("renew-deadline", "10s", "When a leader that cannot renew it gives up."),
            ("retry-period", "2s", "How often the lease is tried for."),
        )
    )
)
"""The three times, with client-go's defaults shown; they are None unless given."""


def lease_place_options(name: str) -> Option:
    """Which object is the lease; `name` is the default that help shows."""
    kind = click.Choice(["leases"])
    return options(
        click.option(
            "--leader-elect-resource-lock",
            type=kind,
            default=None,
            help="What kind of object it is.  [default: leases]",
        ),
        click.option(
            "--leader-elect-resource-name",
            default=None,
            help=f"Its name; who has the same waits for one another.  [default: {name}]",
        ),
        click.option(
            "--leader-elect-resource-namespace", default=None, help="Where the lease is.  [default: kube-system]"
        ),
    )


def check_times(times: Election | LeaderElection) -> None:
    """lease duration > renew deadline > 1.2 retry periods, as client-go asks for. Raises UsageError."""
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
