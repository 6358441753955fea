"""Files of a user, attacked as bodies are: manifests, kubeconfigs, scheduler configurations. A dump stays readable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tonnage.client.config.kubeconfig import load
from tonnage.errors import TonnageError
from tonnage.scheduling.configuration.strict_decoding import Problems, document_of
from tonnage.whatif.manifests import documents_of

Read = Callable[[bytes, Path], None]


def read_manifest(data: bytes, folder: Path) -> None:
    documents_of(data, "file.yaml", [])


def read_kubeconfig(data: bytes, folder: Path) -> None:
    path = folder / "config"
    path.write_bytes(data)
    load(path)


def read_configuration(data: bytes, folder: Path) -> None:
    problems: Problems = []
    document_of(data.decode(), problems, [])
    assert problems
    raise TonnageError(problems[0].message)


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
ATTACKS = {
    "laughs": (LAUGHS, "excessive aliasing"),
    "long text": (f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 10_000)}]", "excessive aliasing"),
    "merges": (
        f"a: &a {{{', '.join(f'k{n}: v' for n in range(2_000))}}}\n" + "b: {<<: *a}\n" * 2_000,
        "excessive aliasing",
    ),
    "deep flow": ("[" * 5_000 + "]" * 5_000, "nested too deeply"),
    "deep block": ("- " * 5_000 + "a", "nested too deeply"),
    "deep JSON": ('{"a":' * 5_000 + "1" + "}" * 5_000, "nested too deeply"),
    "deep aliases": (
        "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5_000)),
        "nested too deeply",
    ),
    "tags": ("".join(f"%TAG !e{n}! tag:a\n" for n in range(1_000)) + "---\na: 1\n", "%TAG"),
}


@pytest.mark.parametrize(("text", "told"), ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("read", [read_manifest, read_kubeconfig, read_configuration])
def test_a_file_that_stands_for_too_much_is_refused(read: Read, text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(TonnageError) as caught:
        read(text.encode(), tmp_path)
    assert told in caught.value.message
    assert len(caught.value.message) < 1_000


@pytest.mark.parametrize("text", ['{"a":' * 50_000, '{"a": ' + "9" * 5_000 + "}", '{"a": 1e999999}', '{"a": NaN}'])
@pytest.mark.parametrize("read", [read_manifest, read_configuration])
def test_odd_json_of_a_file_ends_in_a_sentence(read: Read, text: str, tmp_path: Path) -> None:
    try:
        read(text.encode(), tmp_path)
    except TonnageError as exc:
        assert len(exc.message) < 6_000
    except AssertionError:
        assert "e999999" in text  # to Python's reader it is infinite; what fields make of that is theirs to say


def test_a_dump_of_a_large_cluster_is_read(tmp_path: Path) -> None:
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {f"l{n}": "v" for n in range(20)}}, "spec": {}}
    dump = {"kind": "List", "items": [node] * 8_000}  # more values than a request may have
    assert len(documents_of(json.dumps(dump).encode(), "dump.json", [])[0]["items"]) == 8_000
    text = yaml.safe_dump_all([node] * 300)
    assert len(documents_of(text.encode(), "dump.yaml", [])) == 300
