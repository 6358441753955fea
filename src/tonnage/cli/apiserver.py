"""`tonnage apiserver`: run the embedded Kubernetes API server until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.apiserver import settings as api_settings
from tonnage.apiserver.settings import DEFAULT_ISSUER, MAX_BACKUPS, MAX_MEGABYTES, RBAC_MODE, AuditSettings
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import Parsed, echo, feature_gates, from_flags, logging_options, say_all
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError
from tonnage.printable import printable
from tonnage.serving.process_memory import memory_kept_level, settle

if TYPE_CHECKING:
    from tonnage.apiserver.server import ServerSettings
    from tonnage.store.check import Report


def _mode(text: str) -> str:
    try:
        return api_settings.authorization_mode(text)
    except TonnageError as exc:
        raise ValueError(f"{exc.message}; {exc.hint}") from exc


@click.command()
@flag_table("""
    --data-dir FOLDER!  Folder for everything that the server keeps.
    --bind TEXT=127.0.0.1  Address to listen on.
    --secure-port as port PORT=6443  Port to listen on; 0 takes a free one.
    --token-file FILE  Bearer tokens to accept, a line each: token,user,uid,"group1,group2", or just a token, for an
        administrator. [default: one administrator's token, kept in the data folder]
    --client-ca-file FILE  CAs of client certificates: CN is the user, O its groups. [default: DIR/pki/ca.crt]
""")
@click.option(
    "--anonymous-auth",
    type=click.BOOL,
    default=False,
    show_default=True,
    is_flag=False,
    flag_value="true",
    help="Treat requests without credentials as user system:anonymous instead of answering 401; health pages are"
    " always open.",
)
@click.option(
    "--service-account-issuer",
    default=DEFAULT_ISSUER,
    help="Issuer of ServiceAccount tokens.  [default: https:// and kubernetes.default.svc.cluster.local]",
)
@flag_table(
    f"""
    --api-audiences TEXT= <A,B>  Audiences; a token must name one of them. [default: the issuer]
    --authorization-mode MODE={RBAC_MODE} <MODE>  How requests are authorized: RBAC, or AlwaysAllow for every
        authenticated user.
    --event-ttl DURATION=1h  How long to keep events.
    --audit-log-path TEXT <FILE|->  Write a line for every request to this file: user, request, response code
        (audit.k8s.io/v1). Off by default.
    --audit-log-maxsize INT[0..]={MAX_MEGABYTES}  Start a new audit file after this many megabytes; 0: never.
    --audit-log-maxbackup INT[0..]={MAX_BACKUPS}  How many old audit files to keep; 0: all.
    --check  Check the data folder and exit: 1 if something is damaged.
    --backup FILE <FILE>  Write a consistent copy of the stored objects to a new FILE and exit; also works while a
        server runs.
    """,
    MODE=Parsed("text", _mode),
)
@feature_gates
@logging_options
def apiserver(data_dir: Path, check: bool, backup: Path | None, **flags: Any) -> None:
    """Writes DIR/kubeconfig (admin, mode 0600) and prints "ready https://…" once it serves. SIGTERM and Ctrl-C stop it
    cleanly; kill -9 loses nothing that was acknowledged.

    To restore a backup: stop the server, move DIR/store away, make it again (mkdir -m 700 DIR/store), copy FILE to
    DIR/store/log.sqlite3, and start.
    """
    from tonnage.apiserver.server import ServerSettings
    from tonnage.store.check import back_up, check_folder

    if check and backup is not None:
        raise click.UsageError("--check and --backup cannot be combined: a backup is checked anyway")
    if backup is not None:
        _tell(back_up(data_dir / "store", backup), "backup in")
        return
    if check:
        if not _tell(check_folder(data_dir / "store"), "checked"):
            sys.exit(1)
        return
    if not flags["service_account_issuer"]:
        raise click.UsageError("--service-account-issuer is empty: name one, such as " + DEFAULT_ISSUER)
    say_all("warning", flags["gates"].warnings)
    path, megabytes = flags["audit_log_path"], flags["audit_log_maxsize"]
    settings = from_flags(
        ServerSettings,
        flags,
        data_dir=data_dir,
        api_audiences=tuple(filter(None, (each.strip() for each in flags["api_audiences"].split(",")))),
        audit=AuditSettings(path, megabytes << 20, flags["audit_log_maxbackup"]) if path else None,
    )
    asyncio.run(_run(settings))


_SWITCH_INTERVAL_S = 0.0005
"""How long a busy event loop may keep the interpreter from the store's writer thread. With Python's 5 ms a loop that
never idles can delay a commit for seconds; 0.5 ms has no measurable cost."""


async def _run(settings: ServerSettings) -> None:
    from tonnage.apiserver.server import serve

    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    gc.disable()  # everything loaded here stays; a collection would find nothing
    async with memory_kept_level(SystemClock()), serve(settings) as server:
        settle()
        gc.enable()
        echo(f"kubeconfig {server.kubeconfig}", err=True)
        echo(f"ready {server.url}")
        await told_to_stop.wait()


def _tell(report: Report, done: str) -> bool:
    echo(
        f"{done} {report.path}: schema version {report.version}, {report.objects} objects in {report.rows} rows,"
        f" revision {report.revision}, history from revision {report.compacted}, {report.file_bytes} bytes"
    )
    for problem in report.problems:
        echo(f"damaged: {printable(problem)}")
    if report.is_whole:
        echo("ok: nothing is damaged")
        return True
    echo("1 problem" if report.problem_count == 1 else f"{report.problem_count} problems")
    echo("hint: restore a backup, or delete the damaged objects and create them again", err=True)
    return False
