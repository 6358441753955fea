"""`tonnage driver-check`: does a CSI driver keep the contracts of KEP-5925 and KEP-4876?"""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from tonnage.cli.driver.csi_driver import ENDPOINT
from tonnage.cli.options import DURATION
from tonnage.cli.output import say, written, written_json
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError
from tonnage.printable import assembled, text
from tonnage.private_files import read_given
from tonnage.quantity import InvalidQuantity, Quantity

if TYPE_CHECKING:
    from tonnage.driver_check.results import Results
    from tonnage.driver_check.settings import CheckSettings

BROKEN = 4
INTERRUPTED = 130
_STYLES = {"passed": "green", "failed": "bold red", "skipped": "dim"}


class _Pairs(click.ParamType[dict[str, str]]):
    """KEY=VALUE, several with commas between them."""

    name = "KEY=VALUE,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        found: dict[str, str] = {}
        for each in str(value).split(","):
            key, sign, said = each.strip().partition("=")
            if not key or not sign:
                self.fail(f'"{each}" is no KEY=VALUE', param, ctx)
            if key in found:
                self.fail(f'"{key}" is said twice', param, ctx)
            found[key] = said
        return found


class _Size(click.ParamType[int]):
    """A quantity of bytes above 0."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            found = Quantity.parse(str(value)).value()
        except InvalidQuantity as exc:
            self.fail(exc.message, param, ctx)
        if found <= 0:
            self.fail(f'"{value}" is not more than 0', param, ctx)
        return found


@click.command("driver-check")
@click.option("--csi-address", type=ENDPOINT, required=True, help="Where the driver's Controller service listens.")
@click.option(
    "--node-address",
    "node_addresses",
    type=ENDPOINT,
    multiple=True,
    help="Where a Node service listens that is not at --csi-address. Two of them let rebuilding be checked.",
)
@click.option("--parameters", type=_Pairs(), multiple=True, help="The parameters of the StorageClass.")
@click.option(
    "--topology",
    "segments",
    type=_Pairs(),
    multiple=True,
    help="A topology segment to ask about, once for each.  [default: those of the nodes]",
)
@click.option("--size", type=_Size(), default="1Gi", show_default=True, help="How large volumes are made.")
@click.option(
    "--secrets-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Secrets as YAML, as csi-sanity takes them: CreateVolumeSecret: {key: value}; or key: value for all calls.",
)
@click.option(
    "--cordoned-node", default="", help="A node that the driver takes to be out of use: volumes have to leave it."
)
@click.option(
    "--attach/--no-attach",
    default=True,
    show_default=True,
    help="Check with ControllerPublishVolume, or as with attachRequired: false with NodeStageVolume.",
)
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Where to make the folder that volumes are staged in; the driver has to see it.  [default: a temporary one]",
)
@click.option("--fill", is_flag=True, help="Make volumes as large as whole pools, too, and fill a node.")
@click.option(
    "--most-volumes",
    type=click.IntRange(1, 1000),
    default=32,
    show_default=True,
    help="How many volumes may be made to reach a node's attach limit.",
)
@click.option("--timeout", "timeout_s", type=DURATION, default="15s", show_default=True, help="For each call.")
@click.option(
    "--settle-time", "settle_s", type=DURATION, default="5s", show_default=True, help="How long figures may take."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def driver_check(
    csi_address: str,
    node_addresses: tuple[str, ...],
    parameters: tuple[dict[str, str], ...],
    segments: tuple[dict[str, str], ...],
    size: int,
    secrets_file: Path | None,
    cordoned_node: str,
    attach: bool,
    work_dir: Path | None,
    fill: bool,
    most_volumes: int,
    timeout_s: float,
    settle_s: float,
    output: str,
) -> None:
    """Check a CSI driver against the contracts that KEP-5925 and KEP-4876 rest on.

    Asks the driver over its socket, in the manner of csi-sanity: capacity with pools and what becomes of it, attach
    limits, which codes a refusal has, and volumes that are rebuilt elsewhere. Volumes are made under names of their own
    with a random part, and deleted again, also after Ctrl-C; no other volume is touched. Use a driver that nobody else
    uses meanwhile, or figures may seem to be wrong.

    Exit 0 when no contract is broken, 4 when one is, 1 when the driver cannot be spoken to, 2 when it was asked
    wrongly.
    """
    from tonnage.driver_check.results import Results
    from tonnage.driver_check.settings import CheckSettings

    if timeout_s <= 0:
        raise click.UsageError("--timeout 0s leaves no time for any call")
    results = Results()
    known_secrets = _secrets(secrets_file)
    folder = Path(tempfile.mkdtemp(prefix="driver-check-", dir=work_dir))
    settings = CheckSettings(
        prefix=f"driver-check-{secrets.token_hex(6)}",
        work_dir=folder,
        parameters=_merged(parameters),
        segments=segments,
        size_bytes=size,
        secrets=known_secrets,
        cordoned_node=cordoned_node,
        with_attach=attach,
        fills=fill,
        most_volumes=most_volumes,
        settle_s=settle_s,
    )
    try:
        is_whole = asyncio.run(_examined(csi_address, node_addresses, settings, results, timeout_s))
    finally:
        if not results.left_behind:  # else a volume may still be mounted there
            shutil.rmtree(folder, ignore_errors=True)
    document = {"address": csi_address, **results.document()}
    if output == "json":
        written_json(document)
    else:
        written(partial(_show, document, sys.stdout))
    for each in results.left_behind:
        say("warning", f"left behind: {each}")
    if not is_whole:
        sys.exit(INTERRUPTED)
    sys.exit(0 if results.is_kept else BROKEN)


async def _examined(
    address: str, node_addresses: Iterable[str], settings: CheckSettings, results: Results, timeout_s: float
) -> bool:
    """False when it was cut off; what was made is undone all the same."""
    from tonnage.driver_check.examination import examine

    tell: Callable[[str], None] = partial(say, "note") if sys.stderr.isatty() else lambda _what: None
    work = asyncio.create_task(
        examine(
            address,
            tuple(node_addresses),
            settings,
            results,
            clock=SystemClock(),
            rng=random.Random(),
            timeout_s=timeout_s,
            say=tell,
        )
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        return False
    return True


def _merged(pairs: Iterable[dict[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in pairs:
        found |= each
    return found


def _secrets(path: Path | None) -> dict[str, dict[str, str]]:
    from tonnage.driver_check.settings import read_secrets

    if path is None:
        return {}
    try:
        content = read_given(path).decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise TonnageError(f"{path} cannot be read: {exc.__class__.__name__}") from None
    return read_secrets(content, source=str(path))


def _show(document: dict[str, Any], out: TextIO) -> None:
    from tonnage.whatif.page import FittedTable, TableColumn, TextPage

    page = TextPage(out)
    name = f"{document['driver']} {document['version']}".strip()
    counts = ", ".join(f"{document[each]} {each}" for each in ("passed", "failed", "skipped"))
    page.say(assembled((name, "bold"), f" at {document['address']}: {counts}"))
    page.blank()
    table = FittedTable(
        [TableColumn("CHECK", is_whole=True), TableColumn("OUTCOME", is_whole=True), TableColumn("WHAT WAS SEEN")]
    )
    for each in document["checks"]:
        outcome = each["outcome"]
        table.add(each["name"], text(outcome, style=_STYLES[outcome]), each.get("message", ""))
    page.table(table)
    broken = [each for each in document["checks"] if each["outcome"] == "failed"]
    if broken:
        page.blank()
        page.say(text("WHAT TO DO", style="bold"))
    for each in broken:
        page.say(assembled((each["name"], "bold red"), f"  {each['contract']}"), indent=2)
        page.say(assembled(("→ ", "bold red"), each["remedy"]), indent=4)
