"""Where mounts are and what their records say: the folders of a kubelet."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tonnage.node.mounts import mount_paths
from tonnage.node.mounts.mount_paths import MountPaths, MountRecord

FILE = MountRecord(driver="d", handle="h/1", name="pv-1", pod_uid="u1")
BLOCK = MountRecord(driver="d", handle="h/1", name="pv-1", pod_uid="u1", is_block=True, is_attachable=False)
DIGEST = hashlib.sha256(b"h/1").hexdigest()


def below(path: Path, root: Path) -> str:
    return str(path.relative_to(root))


def test_a_filesystem_volume_has_a_kubelets_paths(tmp_path: Path):
    paths = MountPaths(tmp_path)
    assert below(paths.staging(FILE), tmp_path) == f"plugins/kubernetes.io/csi/d/{DIGEST}/globalmount"
    assert below(paths.target(FILE), tmp_path) == "pods/u1/volumes/kubernetes.io~csi/pv-1/mount"


def test_a_block_volume_has_a_kubelets_paths(tmp_path: Path):
    paths = MountPaths(tmp_path)
    assert below(paths.staging(BLOCK), tmp_path) == "plugins/kubernetes.io/csi/volumeDevices/staging/pv-1"
    assert below(paths.target(BLOCK), tmp_path) == "plugins/kubernetes.io/csi/volumeDevices/publish/pv-1/u1"
    assert below(paths.device_link(BLOCK), tmp_path) == "pods/u1/volumeDevices/kubernetes.io~csi/pv-1"


def test_the_node_knows_a_volume_by_driver_and_handle():
    assert FILE.unique_name == "kubernetes.io/csi/d^h/1"


def test_every_record_is_found_again_as_it_was_written(tmp_path: Path):
    paths = MountPaths(tmp_path)
    staged = [MountRecord(driver="d", handle=f"h{n}", name=f"pv-{n}", is_block=bool(n)) for n in range(2)]
    for record in staged:
        mount_paths.save(paths.record(record), record, node="n", attachment="csi-1")
    for record in (FILE, BLOCK):
        mount_paths.save(paths.record(record), record, node="n", attachment="csi-1")
    found = mount_paths.scan(paths)
    assert sorted(found, key=repr) == sorted([*staged, FILE, BLOCK], key=repr)
    assert paths.record(FILE).stat().st_mode & 0o777 == 0o600


def test_a_record_that_cannot_be_read_is_passed_over_and_left_alone(tmp_path: Path):
    paths = MountPaths(tmp_path)
    path = paths.record(FILE)
    path.parent.mkdir(parents=True)
    path.write_text("{half")
    assert mount_paths.scan(paths) == [] and path.exists()


def test_what_a_killed_process_left_half_done_is_swept_and_mounts_are_not_touched(tmp_path: Path):
    paths = MountPaths(tmp_path)
    half = paths.record(FILE).with_name(".vol_data.json.123")
    half.parent.mkdir(parents=True)
    half.write_text("{")
    emptied = paths.record(MountRecord(driver="d", handle="h", name="pv-2", pod_uid="u2")).parent
    emptied.mkdir(parents=True)
    whole = MountRecord(driver="d", handle="h", name="pv-3", pod_uid="u3")
    mount_paths.save(paths.record(whole), whole, node="n", attachment="")
    paths.target(whole).mkdir()
    mount_paths.sweep(paths)
    assert [path.name for path in (tmp_path / "pods").iterdir()] == ["u3"]
    assert paths.target(whole).is_dir() and mount_paths.scan(paths) == [whole]


def test_removing_a_record_removes_empty_folders_and_never_content(tmp_path: Path):
    paths = MountPaths(tmp_path)
    mount_paths.save(paths.record(FILE), FILE, node="n", attachment="")
    kept = paths.pod("u1") / "volumes" / "precious"
    kept.write_text("data")
    mount_paths.remove(paths.record(FILE), upto=tmp_path)
    assert kept.read_text() == "data"
    assert not paths.target(FILE).parent.exists()
    kept.unlink()
    mount_paths.remove_empty(kept.parent, upto=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("record", [FILE, BLOCK], ids=["filesystem", "block"])
def test_whatever_empty_folders_a_killed_process_left_are_swept(record: MountRecord, tmp_path: Path):
    """Folders are removed from the innermost outwards; each is the last one that was left, once."""
    paths = MountPaths(tmp_path)
    places = [paths.record(record).parent, paths.target(record).parent, paths.pod(record.pod_uid)]
    if record.is_block:
        places.append(paths.device_link(record).parent)
    for folder in [each for place in places for each in (place, *place.parents) if tmp_path in each.parents]:
        folder.mkdir(parents=True, exist_ok=True)
        mount_paths.sweep(paths)
        assert not list((tmp_path / "pods").glob("*")), folder
        assert not list(tmp_path.glob("plugins/kubernetes.io/csi/volumeDevices/*")), folder
