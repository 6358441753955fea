"""A plugin of another package: found by its entry point, named in a configuration, and asked in a decision."""

from __future__ import annotations

import random
import sys

import pytest

from tonnage.errors import TonnageError
from tonnage.scheduler.configuration_file import installed_plugins
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.profiles import assemble
from tonnage.testing.builders import cluster_of, info, node

MODULE = """
from tonnage.scheduling.framework import unresolvable
from tonnage.scheduling.per_node import NodeFilter

class NotOn(NodeFilter):
    name = "NotOn"

    def __init__(self, args):
        self.unloved = (args or {}).get("node", "")

    def filter_node(self, cycle, view):
        return unresolvable("node(s) were unloved") if view.node.name == self.unloved else None
"""

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {enabled: [{name: NotOn}]}}
    pluginConfig: [{name: NotOn, args: {node: b}}]
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a module and its entry points, as pip would."""

    def install(entry: str) -> None:
        (tmp_path / "unloved_nodes.py").write_text(MODULE)
        metadata = tmp_path / "unloved_nodes-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: unloved-nodes\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[tonnage.plugins]\n{entry}\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    sys.modules.pop("unloved_nodes", None)


def test_a_plugin_of_another_package_takes_part_with_its_arguments(package):
    package("NotOn = unloved_nodes:NotOn")
    known = installed_plugins()
    configuration = parse(CONFIGURATION, source="test", known_plugins=known)
    profile = assemble(configuration.profiles[0], random.Random(1))
    decision = profile.decider.decide(cluster_of(node("b")), info("web"))
    assert decision.diagnosis.message() == "0/1 nodes are available: 1 node(s) were unloved."
    assert profile.decider.decide(cluster_of(node("a"), node("b")), info("web")).node == "a"


def test_an_entry_point_that_is_no_plugin_is_a_clear_error(package):
    package("Another = unloved_nodes:NotOn")
    with pytest.raises(TonnageError) as refused:
        installed_plugins()
    assert refused.value.message == (
        "the entry point Another = unloved_nodes:NotOn of group tonnage.plugins is not a plugin of that name"
    )
