"""Whole clusters for end-to-end tests: a file names its own with the fixture `cluster`, and tests share it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scene import Scene

from tonnage.testing.processes import Up, start_up


@contextmanager
def whole_cluster(*flags: str) -> Iterator[Up]:
    """A `tonnage up` in a folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        running = start_up(Path(folder) / "c", *flags)
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture
def scene(cluster: Up, kubectl, namespace: str) -> Scene:
    return Scene(cluster, kubectl, namespace)
