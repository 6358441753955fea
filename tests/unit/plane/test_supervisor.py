"""The supervisor of a cluster's programs, where the process that starts them fails."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tonnage.clock import SystemClock
from tonnage.plane.supervisor import ChildFailed, Supervisor


async def test_a_forkserver_that_ends_is_told_at_once_and_with_its_last_words(tmp_path: Path, monkeypatch):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'ImportError: no numpy' >&2\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broken))
    supervisor = Supervisor(tmp_path / "logs", tmp_path / "run", clock=SystemClock(), rng=random.Random(1))
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        await supervisor.open(lock=lock)
        supervisor.start("apiserver", ["apiserver"])
        with pytest.raises(ChildFailed) as failed:
            await supervisor.wait_ready("apiserver", timeout_s=20.0)
        assert failed.value.message == (
            "the process that starts the cluster's programs has ended; its log ends with:\nImportError: no numpy"
        )
        assert failed.value.hint == f"all of it is in {tmp_path / 'logs' / 'forkserver.log'}"
    finally:
        await supervisor.close()
        os.close(lock)
