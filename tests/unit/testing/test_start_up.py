"""`start_up` where there is no cluster to be had."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import pytest

from support.processes import start_up


@pytest.mark.process
def test_a_cluster_that_does_not_get_ready_is_told_in_its_own_words_and_leaves_no_process_open(tmp_path: Path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(AssertionError, match="error: Invalid value for '--nodes': 0 is not in the range"):
            start_up(tmp_path / "data", "--nodes", "0")
        gc.collect()  # a Popen that nobody waited for complains when it is collected
    assert [str(each.message) for each in caught] == []
