"""The index of pods by node follows the cache."""

from __future__ import annotations

import msgspec
from node_builders import names, pod

from tonnage.client.cache import Cache
from tonnage.controllers.nodes.pods_by_node import PodsByNode
from tonnage.objects.core_v1 import Pod


def versioned(made: Pod, version: str) -> Pod:
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, resource_version=version))


def test_pods_are_found_on_their_node_from_binding_to_deletion() -> None:
    pods = Cache(Pod)
    pods.put(versioned(pod("early", on="n"), "1"))
    index = PodsByNode(pods)
    pods.put(versioned(pod("late"), "2"))
    assert names(index.on("n")) == ["early"]
    pods.put(versioned(pod("late", on="n"), "3"))
    assert names(index.on("n")) == ["early", "late"]
    pods.remove("default/early")
    assert (names(index.on("n")), index.on("elsewhere")) == (["late"], ())
