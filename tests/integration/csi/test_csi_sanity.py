"""The upstream suite for CSI drivers, csi-sanity, against ours: nothing is skipped of what the driver claims.

Set CSI_SANITY to the program's path: `go install github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@latest`.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver_builders import driver_at
from tonnage.driver.serving import serve

SANITY = os.environ.get("CSI_SANITY", "")
NOT_CLAIMED = {
    "ControllerModifyVolume not supported",
    "Modify volume not supported",
    "Modify Volume not supported",
    "GroupControllerService not supported",
}
"""Why a test of the suite may be skipped: the driver does not say that it can change volumes (MODIFY_VOLUME) or take
snapshots of several volumes at once (GROUP_CONTROLLER_SERVICE)."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Near the root: a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.skipif(not SANITY, reason="CSI_SANITY does not name the csi-sanity program")
@pytest.mark.parametrize("access_type", ["mount", "block"])
async def test_csi_sanity_passes_and_skips_only_what_the_driver_does_not_claim(folder: Path, access_type: str) -> None:
    # The suite attaches as many volumes of 10Gi as the node takes, and one more.
    driver = driver_at(folder / "state", "3x100Gi", max_volumes={"node-1": 8})
    async with serve(driver, endpoint=f"unix://{folder}/csi.sock"):
        suite = await asyncio.create_subprocess_exec(
            SANITY,
            f"--csi.endpoint={folder}/csi.sock",
            f"--csi.mountdir={folder}/mount",
            f"--csi.stagingdir={folder}/staging",
            f"--csi.testvolumeaccesstype={access_type}",
            "--csi.testnodevolumeattachlimit",
            f"--ginkgo.json-report={folder}/report.json",
            "--ginkgo.no-color",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await suite.communicate()
    assert suite.returncode == 0, told.decode()
    (report,) = json.loads((folder / "report.json").read_text())
    specs = [spec for spec in report["SpecReports"] if spec["LeafNodeType"] == "It"]
    states = [spec["State"] for spec in specs]
    assert states.count("passed") >= 81
    skipped = {spec["Failure"]["Message"] for spec in specs if spec["State"] == "skipped"}
    assert skipped <= NOT_CLAIMED
    assert driver.allocations.volumes == {}
    assert driver.allocations.snapshots == {}
