"""A configuration file on the disk: read, missing, or no text at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.gates import Gates
from tonnage.scheduler.configuration_file import load_configuration
from tonnage.scheduling.configuration.strict_decoding import ConfigurationError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_a_file_is_loaded_from_disk(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEAD + "clientConnection: {kubeconfig: /etc/kubeconfig}\n")
    configuration = load_configuration(file, Gates())
    assert configuration.client_connection.kubeconfig == "/etc/kubeconfig"
    assert configuration.source == str(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(tmp_path / "none.yaml", Gates())
    assert caught.value.message == f"{tmp_path}/none.yaml: the file cannot be read: No such file or directory"
    assert caught.value.hint == "name a KubeSchedulerConfiguration file"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"kind\xff")
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(tmp_path / "binary", Gates())
    assert caught.value.message == f"{tmp_path}/binary: byte 4 is not UTF-8 text"
