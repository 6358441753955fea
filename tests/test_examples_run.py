"""Every example is applied to a fresh server, and says what its README says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.kubectl
def test_every_example_applies(cluster, kubectl):
    for folder in sorted(path for path in EXAMPLES.iterdir() if path.is_dir()):
        assert (folder / "README.md").exists(), folder
        kubectl("apply", "-f", str(folder))


@pytest.mark.kubectl
def test_pools_shows_the_list_and_gives_the_claim_the_default_class(cluster, kubectl):
    kubectl("apply", "-f", str(EXAMPLES / "01-pools"))
    shown = kubectl(
        "get", "csistoragecapacity", "node-1-pools", "-n", "kube-system", "-o", "jsonpath={.availableCapacities}"
    )
    assert json.loads(shown) == ["100Gi", "100Gi", "100Gi"]
    assert kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.storageClassName}") == "pools"
