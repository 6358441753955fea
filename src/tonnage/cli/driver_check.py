"""`tonnage driver-check`: check a CSI driver against the contracts of KEP-5925 and KEP-4876."""

from __future__ import annotations

import asyncio
import random
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.csi_driver import ENDPOINT
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import INTERRUPTED, Parsed, from_flags, output_option, say, write_answer
from tonnage.cli.running import run_until_signalled
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError
from tonnage.printable import assembled, text
from tonnage.private_files import read_given

if TYPE_CHECKING:
    from tonnage.whatif.page import Page

BROKEN = 4
_STYLES = {"passed": "green", "failed": "bold red", "skipped": "dim"}


def _pairs(text: str) -> dict[str, str]:
    """KEY=VALUE pairs, separated by commas. Raises ValueError."""
    found: dict[str, str] = {}
    for pair in text.split(","):
        key, sign, said = pair.strip().partition("=")
        if not key or not sign:
            raise ValueError(f'"{pair}" is not KEY=VALUE')
        if key in found:
            raise ValueError(f'"{key}" is given twice')
        found[key] = said
    return found


@click.command("driver-check")
@flag_table(
    """
    --csi-address ENDPOINT!  Address of the driver's Controller service.
    --node-address as node_addresses ENDPOINT...  Address of a Node service that is not at --csi-address; with two,
        rebuilding is checked as well.
    --parameters PAIRS...  Parameters of the StorageClass.
    --topology as segments PAIRS...  Topology segment to ask about; may be repeated. [default: those of the nodes]
    --size as size_bytes BYTES=1Gi <SIZE>  Size of the volumes to create.
    --secrets-file FILE  Secrets as YAML, as csi-sanity takes them: CreateVolumeSecret: {key: value}; or key: value for
        all calls.
    --cordoned-node TEXT=  Node that the driver knows to be cordoned, so that volumes have to leave it.
    """,
    ENDPOINT=ENDPOINT,
    PAIRS=Parsed("KEY=VALUE,…", _pairs),
)
@click.option(
    *("--attach/--no-attach", "with_attach"),
    default=True,
    show_default=True,
    help="Attach volumes with ControllerPublishVolume, or, as with attachRequired: false, only stage them.",
)
@flag_table(
    """
    --work-dir DIR  Folder in which to stage volumes; the driver must see it. [default: a temporary one]
    --fill as fills  Also create volumes as large as whole pools, and fill a node.
    --measure as measures  Measure how the driver picks pools and rounds sizes, and print the annotations to set. With
        --fill, larger volumes are created where small ones do not show it.
    --most-volumes INT[1..1000]=32  Most volumes to create at a time, to reach a node's attach limit or to see how
        pools are picked.
    --timeout DURATION=15s  Timeout of each call.
    --settle-time as settle_s DURATION=5s  How long to wait for the driver's figures to change.
    """,
    DIR=click.Path(path_type=Path, file_okay=False, exists=True),
)
@output_option("table", "json")
def driver_check(
    csi_address: str, node_addresses: tuple[str, ...], timeout_s: float, output: str, **flags: Any
) -> None:
    """Calls the driver over its socket, as csi-sanity does, and checks: capacity and pools, and how they change with
    volumes; attach limits; the error codes of refusals; volumes that are rebuilt on another node. It creates volumes
    with random names and deletes them again, also after Ctrl-C; no other volume is touched. Run it while nobody else
    uses the driver, or its figures may look wrong.

    Exit codes: 0 all checks passed, 4 a check failed, 1 the driver did not answer, 2 wrong usage.
    """
    from tonnage.driver_check.checks import examine
    from tonnage.driver_check.results import Results
    from tonnage.driver_check.settings import CheckSettings

    if timeout_s <= 0:
        raise click.UsageError("--timeout 0s leaves no time for any call")
    results = Results()
    known_secrets = _secrets(flags["secrets_file"])
    folder = Path(tempfile.mkdtemp(prefix="driver-check-", dir=flags["work_dir"]))
    settings = from_flags(
        CheckSettings,
        flags,
        prefix=f"driver-check-{secrets.token_hex(6)}",
        work_dir=folder,
        parameters={key: said for pairs in flags["parameters"] for key, said in pairs.items()},
        secrets=known_secrets,
    )
    tell: Callable[[str], None] = partial(say, "note") if sys.stderr.isatty() else lambda _what: None
    clock, rng = SystemClock(), random.Random()
    examination = examine(
        csi_address, node_addresses, settings, results, clock=clock, rng=rng, timeout_s=timeout_s, say=tell
    )
    try:
        is_whole = asyncio.run(run_until_signalled(examination))  # the checks undo what they created
    finally:
        if not results.left_behind:  # otherwise a volume may still be mounted there
            shutil.rmtree(folder, ignore_errors=True)
    document = {"address": csi_address, **results.document()}
    write_answer(output, lambda: document, partial(_show, document))
    for each in results.left_behind:
        say("warning", f"left behind: {each}")
    if not is_whole:
        sys.exit(INTERRUPTED)
    sys.exit(0 if results.is_kept else BROKEN)


def _secrets(path: Path | None) -> dict[str, dict[str, str]]:
    from tonnage.driver_check.settings import read_secrets

    if path is None:
        return {}
    try:
        content = read_given(path).decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise TonnageError(f"{path} cannot be read: {exc.__class__.__name__}") from None
    return read_secrets(content, source=str(path))


def _show(document: dict[str, Any], page: Page) -> None:
    from tonnage.whatif.page import FittedTable

    name = f"{document['driver']} {document['version']}".strip()
    counts = ", ".join(f"{document[each]} {each}" for each in ("passed", "failed", "skipped"))
    page.say(assembled((name, "bold"), f" at {document['address']}: {counts}"))
    page.blank()
    rows = [
        (each["name"], text(each["outcome"], style=_STYLES[each["outcome"]]), each.get("message", ""))
        for each in document["checks"]
    ]
    page.table(FittedTable(("CHECK", "OUTCOME", "WHAT WAS SEEN"), "nnw", rows))
    broken = [each for each in document["checks"] if each["outcome"] == "failed"]
    if broken:
        page.part(text("WHAT TO DO", style="bold"))
    for each in broken:
        page.say(assembled((each["name"], "bold red"), f"  {each['contract']}"), indent=2)
        page.say(assembled(("→ ", "bold red"), each["remedy"]), indent=4)
    if document["measured"]:
        _show_measured(document["measured"], page)


def _show_measured(measured: list[dict[str, str]], page: Page) -> None:
    page.part(text("MEASURED", style="bold"))
    for each in measured:
        value = each["value"] or "nothing to set"
        page.say(assembled((each["annotation"], "bold"), f": {value}"), indent=2)
        page.say(text(each["message"]), indent=4)
    found = " ".join(f"{each['annotation']}={shlex.quote(each['value'])}" for each in measured if each["value"])
    if found:
        page.part(text("Set on each StorageClass of this driver with these parameters:"))
        page.say(text(f"kubectl annotate storageclass NAME {found}"), indent=2)
