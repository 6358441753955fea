"""What a cluster is asked to be, and what it remembers of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.csi.address import MAX_SOCKET_PATH
from tonnage.errors import TonnageError
from tonnage.plane.settings import ClusterShape, PlaneSettings


def kept(settings: PlaneSettings) -> None:
    settings.save(settings.resolved())


def test_what_is_not_said_is_the_default_at_the_first_time(tmp_path):
    asked = PlaneSettings(data_dir=tmp_path).resolved()
    assert asked == ClusterShape(3, ("3x100Gi",), ("16",), "best-fit", 1, "")


@pytest.mark.parametrize(
    ("pools", "nodes"),
    [
        (("node-1=100Gi",), 1),
        (("node-1=100Gi", "node-1=50Gi"), 1),  # of two, the last one wins
        (("node-1=100Gi", "node-2=3x100Gi", "node-3=2x60Gi"), 3),
        (("100Gi",), 3),
        (("100Gi", "node-2=50Gi"), 3),
    ],
)
def test_pools_of_named_nodes_alone_say_how_many_nodes_there_are(tmp_path, pools, nodes):
    assert PlaneSettings(data_dir=tmp_path, pools=pools).resolved().nodes == nodes
    assert PlaneSettings(data_dir=tmp_path, pools=pools, nodes=5).resolved().nodes == 5


def test_pools_of_named_nodes_do_not_shrink_a_cluster(tmp_path):
    kept(PlaneSettings(data_dir=tmp_path, nodes=5))
    assert PlaneSettings(data_dir=tmp_path, pools=("node-1=100Gi",)).resolved().nodes == 5


def test_what_is_not_said_is_as_before_at_the_next_time(tmp_path):
    kept(PlaneSettings(data_dir=tmp_path, nodes=5, pools=("2x10Gi",)))
    asked = PlaneSettings(data_dir=tmp_path, pool_policy="random").resolved()
    assert (asked.nodes, asked.pools, asked.pool_policy) == (5, ("2x10Gi",), "random")


def test_what_is_said_anew_counts_from_then_on(tmp_path):
    kept(PlaneSettings(data_dir=tmp_path, nodes=5))
    kept(PlaneSettings(data_dir=tmp_path, nodes=2))
    assert PlaneSettings(data_dir=tmp_path).resolved().node_names == ["node-1", "node-2"]


def test_what_is_only_asked_is_not_remembered(tmp_path):
    kept(PlaneSettings(data_dir=tmp_path, nodes=5))
    PlaneSettings(data_dir=tmp_path, nodes=2).resolved()  # a second cluster on the folder, which will be refused
    assert PlaneSettings(data_dir=tmp_path).resolved().nodes == 5


@pytest.mark.parametrize("text", ["{", "[]", '{"nodes": "many"}'])
def test_a_memory_that_cannot_be_read_is_named_with_its_remedy(tmp_path, text):
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(TonnageError) as told:
        PlaneSettings(data_dir=tmp_path).resolved()
    assert told.value.message.startswith(f"{tmp_path / 'cluster.json'} cannot be read: ")
    assert told.value.hint == "remove the file, and give --nodes, --pools and --max-volumes"


def test_sockets_are_in_the_folder_where_their_paths_are_short_enough():
    assert PlaneSettings(data_dir=Path("/data")).socket_dir() == Path("/data/run")


def test_sockets_of_a_deep_folder_are_where_the_kernel_takes_them():
    deep = PlaneSettings(data_dir=Path("/" + "deep/" * 30))
    socket = deep.socket_dir() / "node-500" / "csi.sock"
    assert len(str(socket)) <= MAX_SOCKET_PATH
    # Two folders never share sockets.
    assert deep.socket_dir() != PlaneSettings(data_dir=Path("/" + "deeper/" * 30)).socket_dir()


def test_a_cluster_that_shrank_knows_the_nodes_it_left_behind(tmp_path: Path):
    shape = PlaneSettings(data_dir=tmp_path, nodes=2).resolved()
    present = ["extra-1", "node-1", "node-10", "node-2", "node-3"]  # extra-1 is somebody else's
    assert shape.former_nodes(present) == ["node-3", "node-10"]
