"""A cluster is started again with larger pools: volumes that the new figures show are not counted once more."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scene import Scene
from test_up_goes_on import NoKubectl

from support.processes import start_up
from tonnage.stories.story_runner import claim, pod


def test_what_a_larger_pool_has_free_is_given_out_at_once():
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        up = start_up(Path(folder) / "c", "--nodes", "1", "--pools", "100Gi")
        try:
            NoKubectl(up).create(claim("a", "80Gi"), pod("db", ["a"]))
            Scene(up, NoKubectl(up), "default").running("db")
        finally:
            up.stop()
        up = start_up(Path(folder) / "c", "--nodes", "1", "--pools", "150Gi")
        try:
            # 150 - 80 = 70Gi are free. Were the 80Gi counted twice, nothing would be for the rest of a minute.
            NoKubectl(up).create(claim("b", "60Gi"), pod("web", ["b"]))
            Scene(up, NoKubectl(up), "default").running("web")
        finally:
            up.stop()
