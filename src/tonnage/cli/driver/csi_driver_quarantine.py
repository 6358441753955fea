"""`tonnage csi-driver-quarantine`: contents of a state folder that no record names, shown or moved out of the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tonnage.cli.output import echo, written, written_json
from tonnage.driver.state.folder import StateFolder
from tonnage.driver.state.unknown import QUARANTINE, UnknownContents, quarantine, unknown_contents
from tonnage.errors import TonnageError
from tonnage.printable import printable
from tonnage.quantity import Quantity


@click.command("csi-driver-quarantine")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The state folder of a `tonnage csi-driver` that does not run; of a `tonnage up` cluster it is DIR/driver.",
)
@click.argument("names", nargs=-1, metavar="[NODE/pool-N/NAME]...")
@click.option("--all", "everything", is_flag=True, help="Move everything that no record names.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def csi_driver_quarantine(state_dir: Path, names: tuple[str, ...], everything: bool, output: str) -> None:
    """Show what lies in a driver's pools without a record, or move it out of them.

    The driver keeps such contents and counts them as used, since they may be data. Named here, or with --all, they are
    moved to STATE/.quarantine by the same path: nothing is deleted, and the pool has its room back. To take contents up
    again, stop the driver, move them back and restore their record from a backup.
    """
    if names and everything:
        raise click.UsageError("name what to move, or say --all, not both")
    if not state_dir.is_dir():
        raise TonnageError(f"there is no state folder {state_dir}", hint="name the --state-dir of the driver")
    folder = StateFolder(state_dir)
    try:
        folder.recover([*folder.volumes(), *folder.snapshots()])  # what calls left is no stranger's: put right first
        found = unknown_contents(folder.path, in_use=False)
        chosen = found if everything else [_named(folder.path, found, name) for name in dict.fromkeys(names)]
        moved = dict(_moved(folder, chosen))
    finally:
        folder.close()
    if output == "json":
        written_json([_document(each, moved.get(each.path)) for each in found])
    else:
        written(lambda: echo("\n".join(_lines(found, moved))))


def _named(state_dir: Path, found: Sequence[UnknownContents], name: str) -> UnknownContents:
    for each in found:
        if name in (str(each.path), str(each.path.relative_to(state_dir))):
            return each
    raise TonnageError(
        f"{name} is nothing that lies in a pool of {state_dir} without a record",
        hint="the command without a name shows what there is",
    )


def _moved(folder: StateFolder, chosen: Sequence[UnknownContents]) -> list[tuple[Path, Path]]:
    try:
        return list(quarantine(folder, chosen))
    except OSError as exc:
        raise TonnageError(
            f"{exc.filename} cannot be moved to {folder.path / QUARANTINE}: {exc.strerror}",
            hint="nothing is lost; what was not moved is where it was",
        ) from exc


def _document(each: UnknownContents, to: Path | None) -> dict[str, object]:
    return {
        "node": each.place.node,
        "pool": each.place.pool,
        "path": str(each.path),
        "bytes": each.size_bytes,
        "movedTo": None if to is None else str(to),
    }


def _lines(found: Sequence[UnknownContents], moved: dict[Path, Path]) -> list[str]:
    if not found:
        return ["everything in the pools has a record"]
    lines = []
    for each in found:
        to = moved.get(each.path)
        said = f"moved to {to}" if to is not None else "no record; kept, and counted as used"
        lines.append(f"{printable(str(each.path))}  {Quantity.from_bytes(each.size_bytes)}  {said}")
    return lines
