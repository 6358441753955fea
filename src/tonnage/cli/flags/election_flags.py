"""Flags of leader election, as component-base has them: --leader-elect and --leader-elect-*."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

from tonnage.cli.flags.go_flags import switch
from tonnage.cli.options import DURATION

F = TypeVar("F", bound=Callable[..., Any])


class ElectionFlags(TypedDict):
    """As click hands them over; None where a flag is not given and a configuration has its say."""

    leader_elect: bool | None
    leader_elect_lease_duration: float | None
    leader_elect_renew_deadline: float | None
    leader_elect_retry_period: float | None
    leader_elect_resource_lock: str | None
    leader_elect_resource_name: str | None
    leader_elect_resource_namespace: str | None


def lease_time_options(command: F) -> F:
    """The three times, with client-go's defaults shown; they are None unless given."""
    for name, default, help in (
        ("retry-period", "2s", "How often the lease is tried for."),
        ("renew-deadline", "10s", "When a leader that cannot renew it gives up."),
        ("lease-duration", "15s", "How long the lease lasts."),
    ):
        command = click.option(
            f"--leader-elect-{name}", type=DURATION, default=None, help=f"{help}  [default: {default}]"
        )(command)
    return command


def lease_place_options(name: str) -> Callable[[F], F]:
    """Which object is the lease; `name` is the default that help shows."""

    def of(command: F) -> F:
        for flag, default, help in (
            ("resource-namespace", "kube-system", "Where the lease is."),
            ("resource-name", name, "Its name; who has the same waits for one another."),
        ):
            command = click.option(f"--leader-elect-{flag}", default=None, help=f"{help}  [default: {default}]")(
                command
            )
        return click.option(
            "--leader-elect-resource-lock",
            type=click.Choice(["leases"]),
            default=None,
            help="What kind of object it is.  [default: leases]",
        )(command)

    return of


def leader_elect_option(*, default: bool | None, help: str) -> Callable[[F], F]:
    return switch("--leader-elect", default=default, help=help)


def checked_times(*, lease_duration_s: float, renew_deadline_s: float, retry_period_s: float) -> None:
    """lease duration > renew deadline > 1.2 retry periods, as client-go asks for. Raises UsageError."""
    from tonnage.client.leader import check_retry_period
    from tonnage.client.leadership import InvalidLeaseTimes, check_lease_times

    try:
        check_lease_times(lease_duration_s=lease_duration_s, renew_deadline_s=renew_deadline_s)
        check_retry_period(renew_deadline_s=renew_deadline_s, retry_period_s=retry_period_s)
    except InvalidLeaseTimes as exc:
        hint = f" ({exc.hint})" if exc.hint else ""
        raise click.UsageError(
            f"{exc.message}{hint}: see --leader-elect-lease-duration, --leader-elect-renew-deadline and "
            "--leader-elect-retry-period"
        ) from exc
