"""An object as YAML, as the API server has it, without managedFields."""

from __future__ import annotations

import pytest
import yaml

from support.filled_cluster import FilledCluster
from support.virtual_clock import VirtualClock
from tonnage.dashboard.questions.pod_story import as_yaml, object_text
from tonnage.errors import NotFound
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import claim


def test_the_head_comes_first_and_managed_fields_are_left_out():
    doc = {
        "kind": "Node",
        "status": {"phase": "x"},
        "spec": {"a": "yes"},
        "metadata": {"name": "n", "managedFields": [{"manager": "kubectl"}], "labels": {"z": "1", "a": "2"}},
        "apiVersion": "v1",
    }
    text = as_yaml(doc)
    assert text.splitlines()[:4] == ["apiVersion: v1", "kind: Node", "metadata:", "  name: n"]
    assert "managedFields" not in text
    del doc["metadata"]["managedFields"]  # type: ignore[attr-defined]
    assert yaml.safe_load(text) == doc


async def test_an_object_is_found_by_its_kind_and_key_and_another_is_not():
    cluster = FilledCluster(clock=VirtualClock())
    cluster.put(node("a"), claim("data", "5Gi", namespace="shop"))
    told = await object_text(cluster, "persistentvolumeclaims", "shop/data")
    assert yaml.safe_load(told["yaml"])["spec"]["resources"]["requests"]["storage"] == "5Gi"
    for resource, key in (("nodes", "b"), ("persistentvolumeclaims", "jobs/data"), ("pods", "shop/data")):
        with pytest.raises(NotFound, match=f'{resource} "{key}" not found'):
            await object_text(cluster, resource, key)
