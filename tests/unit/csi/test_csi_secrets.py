"""Secrets as drivers get them: text, or an error that names the key and never the value."""

from __future__ import annotations

import pytest

from tonnage.csi.conversion import UndecodableSecret, secret_values
from tonnage.objects.core_v1 import Secret
from tonnage.objects.meta import ObjectMeta


def secret(**data: bytes) -> Secret:
    return Secret(metadata=ObjectMeta(name="key", namespace="default"), data=data)


def test_a_driver_gets_the_values_as_text() -> None:
    assert secret_values(secret(user=b"ann", password="ü".encode())) == {"user": "ann", "password": "ü"}


def test_a_value_that_is_not_text_is_named_and_not_shown() -> None:
    with pytest.raises(UndecodableSecret) as refused:
        secret_values(secret(user=b"ann", token=b"hush\xff"))
    assert refused.value.message == (
        'secret "default/key": the value of key "token" is not UTF-8 text, which is all that a CSI driver takes'
    )
    assert refused.value.hint == 'write the value of "token" as text and encode it in base64 once'
    assert refused.value.__cause__ is None and refused.value.__suppress_context__
    assert "hush" not in str(refused.value)
