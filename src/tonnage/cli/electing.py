"""What every command with leader election has in common: who we are, and a client for the lease alone."""

from __future__ import annotations

import secrets
import socket

from tonnage.client.config.connection import Connection
from tonnage.client.http import Client
from tonnage.client.leader import lease_timeout_s
from tonnage.client.leadership import Leadership
from tonnage.clock import Clock


def new_identity() -> str:
    """Ours alone, also among copies on one machine and among our own starts."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"


def lease_client(connection: Connection, leadership: Leadership, *, clock: Clock, user_agent: str) -> Client:
    """A way to the lease alone: nothing it could wait behind, and no guard, because leading comes from it."""
    return Client.connect(
        connection, clock=clock, user_agent=user_agent, timeout_s=lease_timeout_s(leadership.renew_deadline_s)
    )
