"""The Secrets that go with calls to a driver, read when they are needed and kept nowhere."""

from __future__ import annotations

from tonnage.client.http import Client
from tonnage.csi.secrets import UndecodableSecret, secret_values
from tonnage.errors import ApiError, TonnageError
from tonnage.objects.core_v1 import Secret, SecretReference


class SecretUnavailable(TonnageError):
    """A Secret that cannot be had; `reference` is which."""

    def __init__(self, reference: SecretReference, why: str) -> None:
        self.reference = reference
        super().__init__(f"error getting secret {reference.name} in namespace {reference.namespace}: {why}")


async def read_secret(client: Client, reference: SecretReference | None) -> dict[str, str]:
    """What a Secret holds, as the driver gets it; nothing without a reference. Raises SecretUnavailable."""
    if reference is None or not reference.name:
        return {}
    try:
        secret = await client.get(Secret, f"{reference.namespace}/{reference.name}")
        return secret_values(secret)
    except (ApiError, UndecodableSecret) as exc:
        raise SecretUnavailable(reference, exc.message) from exc
