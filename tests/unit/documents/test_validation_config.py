"""ConfigMap and Secret at the edge of their size."""

from __future__ import annotations

import base64

from tonnage.clock import SystemClock
from tonnage.documents.creation import strategies
from tonnage.documents.kinds.config_map import MAX_BYTES
from tonnage.gates import Gates
from tonnage.objects.document import Doc

RULES = strategies(Gates(), SystemClock())
validate_config_map = RULES["", "configmaps"].validate
validate_secret = RULES["", "secrets"].validate


def config_map(**fields: Doc) -> Doc:
    return {"metadata": {"name": "m"}, **fields}


def encoded(size: int) -> str:
    return base64.b64encode(b"x" * size).decode()


def test_a_mebibyte_is_the_most_a_config_map_holds() -> None:
    # "ä" is one character and two bytes of UTF-8.
    full = {"a": "x" * (MAX_BYTES - 2), "b": "ä"}
    assert validate_config_map(config_map(data=full)) == []
    (error,) = validate_config_map(config_map(data={**full, "c": "x"}))
    assert str(error) == "[]: Too long: may not be more than 1048576 bytes"


def test_text_and_binary_data_share_the_room() -> None:
    half = MAX_BYTES // 2
    fits = config_map(data={"a": "x" * half}, binaryData={"b": encoded(half)})
    assert validate_config_map(fits) == []
    assert validate_config_map(config_map(data={"a": "x" * half}, binaryData={"b": encoded(half + 1)})) != []


def test_a_secret_is_measured_by_what_its_base64_stands_for() -> None:
    for padding in range(3):  # no, one and two padding characters
        size = MAX_BYTES - padding
        assert validate_secret({"metadata": {}, "data": {"a": encoded(size)}}) == []
    (error,) = validate_secret({"metadata": {}, "data": {"a": encoded(MAX_BYTES + 1)}})
    assert str(error) == "data: Too long: may not be more than 1048576 bytes"


def test_the_contents_of_a_secret_are_never_told() -> None:
    secret = {
        "metadata": {},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(b"hunter2").decode()},
    }
    (error,) = validate_secret(secret)
    assert "hunter2" not in str(error)
    assert str(error).startswith('data[.dockerconfigjson]: Invalid value: "<secret contents redacted>"')
