"""`tonnage apiserver`: the embedded Kubernetes API server, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.apiserver.settings import (
    DEFAULT_ISSUER,
    MAX_BACKUPS,
    MAX_MEGABYTES,
    RBAC_MODE,
    AuditSettings,
    authorization_mode,
)
from tonnage.cli.options import DURATION, feature_gates, logging_options, start_logging
from tonnage.cli.output import echo, say
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.printable import printable
from tonnage.serving.process_memory import memory_kept_level

if TYPE_CHECKING:
    from tonnage.apiserver.server import ServerSettings
    from tonnage.store import Report


def _mode(context: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        return authorization_mode(value)
    except TonnageError as exc:
        raise click.BadParameter(f"{exc.message}; {exc.hint}", context, parameter) from exc


@click.command()
@click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where everything is kept."
)
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--secure-port", type=click.IntRange(0, 65535), default=6443, show_default=True, help="0 takes a free one."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help='Bearer tokens that are let in: token,user,uid,"group1,group2" a line, or a bare token, which is an '
    "administrator's; without it the data folder keeps one of those.",
)
@click.option(
    "--client-ca-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Authorities whose client certificates are believed: CN is the user, O its groups. Default: DIR/pki/ca.crt.",
)
@click.option(
    "--anonymous-auth",
    type=click.BOOL,
    is_flag=False,
    flag_value="true",
    default=False,
    show_default=True,
    help="Requests without credentials are system:anonymous's, instead of 401; health is open in any case.",
)
@click.option(
    "--service-account-issuer",
    default=DEFAULT_ISSUER,
    show_default=True,
    help="Who the tokens of ServiceAccounts say they are from.",
)
@click.option(
    "--api-audiences",
    default="",
    metavar="A,B",
    help="Whom this server takes itself to be: for whom tokens must be. Default: the issuer.",
)
@click.option(
    "--authorization-mode",
    "mode",
    callback=_mode,
    default=RBAC_MODE,
    show_default=True,
    metavar="MODE",
    help="Who may do what: RBAC, or AlwaysAllow for everybody who is let in.",
)
@click.option(
    "--event-ttl", "event_ttl_s", type=DURATION, default="1h", show_default=True, help="How long events are kept."
)
@click.option(
    "--audit-log-path",
    metavar="FILE|-",
    help="Write a line for every request there: who, what, and the answer's code (audit.k8s.io/v1). Off by default.",
)
@click.option(
    "--audit-log-maxsize",
    type=click.IntRange(min=0),
    default=MAX_MEGABYTES,
    show_default=True,
    help="Megabytes after which that file is put aside and another begun; 0: never.",
)
@click.option(
    "--audit-log-maxbackup",
    type=click.IntRange(min=0),
    default=MAX_BACKUPS,
    show_default=True,
    help="How many of those put aside are kept; 0: all.",
)
@click.option("--check", is_flag=True, help="Verify the data folder, serve nothing; exit 1 if something is damaged.")
@click.option(
    "--backup",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a consistent copy of the stored objects to a new FILE, also while a server runs; serve nothing.",
)
@feature_gates
@logging_options
def apiserver(
    data_dir: Path,
    bind: str,
    secure_port: int,
    token_file: Path | None,
    mode: str,
    client_ca_file: Path | None,
    anonymous_auth: bool,
    service_account_issuer: str,
    api_audiences: str,
    event_ttl_s: float,
    audit_log_path: str | None,
    audit_log_maxsize: int,
    audit_log_maxbackup: int,
    check: bool,
    backup: Path | None,
    gates: Gates,
    logging_format: str,
    verbosity: int,
) -> None:
    """Serve the Kubernetes API from one folder: kubectl, client-go and the Python client work on it.

    Writes DIR/kubeconfig (admin, mode 0600) and prints "ready https://…" once it serves. SIGTERM and Ctrl-C stop it
    cleanly; kill -9 loses nothing that was acknowledged.

    To restore a backup: stop the server, move DIR/store away, make it anew (mkdir -m 700 DIR/store), copy FILE to
    DIR/store/log.sqlite3, and start.
    """
    from tonnage.apiserver.server import ServerSettings
    from tonnage.apiserver.stored_documents import stored_problem
    from tonnage.store import back_up, check_folder

    start_logging(logging_format, verbosity)
    if check and backup is not None:
        raise click.UsageError("--check and --backup exclude each other: a backup is checked by itself")
    if backup is not None:
        _tell(back_up(data_dir / "store", backup, stored_problem), "backup in")
        return
    if check:
        if not _tell(check_folder(data_dir / "store", stored_problem), "checked"):
            sys.exit(1)
        return
    if not service_account_issuer:
        raise click.UsageError("--service-account-issuer is empty: name one, such as " + DEFAULT_ISSUER)
    for warning in gates.warnings:
        say("warning", warning)
    audit = AuditSettings(audit_log_path, audit_log_maxsize << 20, audit_log_maxbackup) if audit_log_path else None
    settings = ServerSettings(
        data_dir=data_dir,
        bind=bind,
        port=secure_port,
        token_file=token_file,
        authorization_mode=mode,
        client_ca_file=client_ca_file,
        anonymous_auth=anonymous_auth,
        service_account_issuer=service_account_issuer,
        api_audiences=tuple(filter(None, (each.strip() for each in api_audiences.split(",")))),
        gates=gates,
        event_ttl_s=event_ttl_s,
        audit=audit,
    )
    asyncio.run(_run(settings))


_SWITCH_INTERVAL_S = 0.0005
"""How long a busy event loop may keep the interpreter from the store's writing thread. Python's 5 ms, taken at every
turn by a loop that never rests, can starve a commit for seconds; this costs nothing measurable."""
_YOUNG_OBJECTS = 20_000
"""New objects between two collections of the youngest; Python's 700 are those of three requests."""


async def _run(settings: ServerSettings) -> None:
    from tonnage.apiserver.server import serve

    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    gc.disable()  # all that is loaded stays, and there is nothing to find in it
    async with memory_kept_level(SystemClock()), serve(settings) as server:
        _spare_what_stays()
        echo(f"kubeconfig {server.kubeconfig}", err=True)
        echo(f"ready {server.url}")
        await told_to_stop.wait()


def _spare_what_stays() -> None:
    """Keep the garbage collector from walking through code, schemas and stored objects over and over.

    What comes and goes with requests is freed by its counts; the rare circle can wait (`memory_kept_level`).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    gc.enable()


def _tell(report: Report, done: str) -> bool:
    """Print what a check found, damage last; whether all is whole."""
    echo(
        f"{done} {report.path}: schema version {report.version}, {report.objects} objects in {report.rows} rows,"
        f" revision {report.revision}, history from revision {report.compacted}, {report.file_bytes} bytes"
    )
    for problem in report.problems:
        echo(f"damaged: {printable(problem)}")
    if report.is_whole:
        echo("ok: nothing is damaged")
        return True
    echo(f"{report.problem_count} problems")
    echo("hint: restore a backup, or go on without what is damaged: delete those objects and make them anew", err=True)
    return False
