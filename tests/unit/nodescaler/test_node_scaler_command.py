"""The command line of `tonnage node-scaler`: what it takes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pool_builders import template

from tonnage.cli.node_scaler import node_scaler, template_of
from tonnage.errors import TonnageError
from tonnage.nodescaler.node_pool import InvalidPool
from tonnage.objects.document import Doc
from tonnage.whatif.manifest_errors import BrokenManifest


def written(folder: Path, *docs: Doc) -> Path:
    path = folder / "template.yaml"
    path.write_text("---\n".join(json.dumps(doc) + "\n" for doc in docs))
    return path


def test_a_template_is_read_as_it_is_written(tmp_path: Path) -> None:
    assert template_of(written(tmp_path, template())) == (template(), ())


def test_storage_may_stand_beside_it(tmp_path: Path) -> None:
    csi_node = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "burst"},
        "spec": {"drivers": [{"name": "csi.example", "nodeID": "burst"}]},
    }
    assert template_of(written(tmp_path, template(), csi_node)) == (template(), (csi_node,))


def test_a_template_is_one_node(tmp_path: Path) -> None:
    path = written(tmp_path, template(), template("second"))
    with pytest.raises(InvalidPool) as refused:
        template_of(path)
    assert refused.value.message == f"{path}: a template is one Node, and this file holds Node, Node"
    assert refused.value.hint == (
        "beside the Node there may be CSINode and CSIStorageCapacity, for what its driver will publish"
    )


def test_a_misspelt_field_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BrokenManifest):
        template_of(written(tmp_path, template() | {"spce": {}}))


def test_unknown_flags_and_missing_ones_are_wrong_usage(tmp_path: Path) -> None:
    path = str(written(tmp_path, template()))
    assert CliRunner().invoke(node_scaler, ["--template", path, "--max", "1", "--maximum", "2"]).exit_code == 2
    assert CliRunner().invoke(node_scaler, ["--template", path]).exit_code == 2
    assert CliRunner().invoke(node_scaler, ["--template", path, "--max", "1", "--ready-seconds", "-1"]).exit_code == 2


def test_limits_that_contradict_one_another_are_told(tmp_path: Path) -> None:
    path = str(written(tmp_path, template()))
    done = CliRunner().invoke(node_scaler, ["--template", path, "--max", "1", "--min", "2"])
    assert isinstance(done.exception, TonnageError)
    assert done.exception.message == "a pool cannot have at least 2 and at most 1 nodes"
