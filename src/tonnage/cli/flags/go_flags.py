"""Flags in the form of Go's pflag, as Kubernetes' programs have them, and the flags of leader election.

    @click.command(cls=GoCommand)
    @flag_table("--leader-elect SWITCH=false  …")         --leader-elect, --leader-elect=true, --leader-elect=false
    @refused("--vmodule", because="…", instead="…")       a flag that upstream has and we do not, with the reason

A `GoCommand` also accepts `--no-leader-elect` for `--leader-elect=false` (the last one counts), `--leader_elect`,
`-v=4`, and `--version` as verflag does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click

from tonnage import __version__
from tonnage.cli.commands import HintedUsageError
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import Option, echo
from tonnage.client.leadership import InvalidLeaseTimes, LeaseTimes


def refused(name: str, *, because: str, instead: str) -> Option:
    """A hidden flag of upstream's that is an error here, with the reason and the remedy."""

    def refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise HintedUsageError(f"{name} is not supported: {because}", instead, ctx)

    return _hidden(name, refuse)


def _hidden(name: str, callback: Callable[[click.Context, click.Parameter, str | None], None]) -> Option:
    """A flag that is only looked at. Without a value it is "true", as pflag's switches."""
    return click.option(
        name, is_flag=False, flag_value="true", default=None, callback=callback, expose_value=False, hidden=True
    )


def ignored(name: str, *, only: tuple[str, ...] = (), because: str) -> Option:
    """A hidden flag of upstream's without effect here. With `only`, other values are refused."""

    def look(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None and only and value.lower() not in only:
            raise HintedUsageError(f"{name}={value} is not supported: {because}", f"leave {name} out", ctx)

    return _hidden(name, look)


def version_flag(program: str) -> Option:
    """`--version`, `--version=true`, `--version=raw`: print the version and exit before other flags are checked."""

    def show(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is None or value.lower() in ("false", "f", "0"):
            return
        if value.lower() not in ("true", "t", "1", "raw"):
            raise click.BadParameter(f'"{value}" is not one of true, false and raw', ctx, param)
        echo(f"tonnage {__version__}, {program}")
        ctx.exit()

    return click.option(
        "--version",
        is_flag=False,
        flag_value="true",
        default=None,
        is_eager=True,
        expose_value=False,
        callback=show,
        metavar="[=true|raw]",
        help="Print the version and exit.",
    )


class GoCommand(click.Command):
    """A command that accepts flags in pflag's form. Its switches also have click's `--no-` form."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        switches = {
            name
            for param in self.params
            if isinstance(param, click.Option) and param.type is click.BOOL and not param.is_flag
            for name in param.opts
        }
        return super().parse_args(ctx, [_as_click_has_it(each, switches) for each in args])


def _as_click_has_it(text: str, switches: set[str]) -> str:
    name, equals, value = text.partition("=")
    if name == "-v" and equals:
        return f"--v={value}"
    if not name.startswith("--"):
        return text
    name = name.replace("_", "-")
    if not equals and name.startswith("--no-") and f"--{name.removeprefix('--no-')}" in switches:
        return f"--{name.removeprefix('--no-')}=false"
    return f"{name}{equals}{value}"


@dataclass(frozen=True, slots=True)
class Election:
    is_on: bool
    times: LeaseTimes
    release_on_cancel: bool = True


LEASE_TIMES: Final = {
    "lease-duration": ("15s", "How long the lease lasts."),
    "renew-deadline": ("10s", "How long a leader tries to renew the lease before it gives up."),
    "retry-period": ("2s", "How often to try to get or renew the lease."),
}
lease_time_options: Final = flag_table(
    "\n".join(
        f"--leader-elect-{name} as leader_elect_{name.replace('-', '_')} DURATION  {help} [default: {default}]"
        for name, (default, help) in LEASE_TIMES.items()
    )
)
"""Lease duration, renew deadline and retry period: None unless given, though help shows client-go's defaults."""


def lease_place_options(name: str) -> Option:
    """Name and namespace of the lease; `name` is the default that help shows."""
    return flag_table(
        f"""
        --leader-elect-resource-lock LOCK  Kind of object to use as the lock. [default: leases]
        --leader-elect-resource-name TEXT  Name of the lease; of all programs that share a lease, one works at a time.
            [default: {name}]
        --leader-elect-resource-namespace TEXT  Namespace of the lease. [default: kube-system]
        """,
        LOCK=click.Choice(["leases"]),
    )


def check_times(times: LeaseTimes) -> None:
    """Check that lease duration > renew deadline > 1.2 * retry period, as client-go requires. Raises UsageError."""
    try:
        times.check()
    except InvalidLeaseTimes as exc:
        hint = f" ({exc.hint})" if exc.hint else ""
        raise click.UsageError(
            f"{exc.message}{hint}: see --leader-elect-lease-duration, --leader-elect-renew-deadline and "
            "--leader-elect-retry-period"
        ) from exc
