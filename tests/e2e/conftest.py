"""A scene of its own for each end-to-end test, on the whole cluster that its file shares: the fixture `cluster`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scene import Scene

from support.processes import Up


@pytest.fixture
def scene(cluster: Up, kubectl, namespace: str) -> Iterator[Scene]:
    played = Scene(cluster, kubectl, namespace)
    yield played
    played.clear_away()
