"""What a Secret holds, as the calls of CSI carry it: strings. Read when it is needed, and kept nowhere.

A value that is not text cannot be sent to a driver: it is refused by name, and never shown.
"""

from __future__ import annotations

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Secret


class UndecodableSecret(TonnageError):
    """A Secret with a value that is not UTF-8 text; `key` is which."""

    def __init__(self, secret: Secret, key: str) -> None:
        self.secret = secret.key
        self.key = key
        super().__init__(
            f'secret "{secret.key}": the value of key "{key}" is not UTF-8 text, which is all that a CSI driver takes',
            hint=f'write the value of "{key}" as text and encode it in base64 once',
        )


def secret_values(secret: Secret) -> dict[str, str]:
    """The Secret's values by key. Raises UndecodableSecret."""
    values = {}
    for key, value in secret.data.items():
        try:
            values[key] = value.decode()
        except UnicodeDecodeError:
            # `from None`: the cause would show the value.
            raise UndecodableSecret(secret, key) from None
    return values
