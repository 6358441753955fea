"""Finds the scheduler that runs in a live cluster, where no flag names its endpoint.

The chart and the overlays label its Service; the lease names the replica that decides. The Service's name leads there
from inside the cluster. From outside, the note says what to run: `kubectl port-forward`, and which flags to add.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tonnage.client.config.connection import KubeconfigUser
from tonnage.endpoints import Endpoint
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Service
from tonnage.objects.small_groups import Lease

if TYPE_CHECKING:
    from tonnage.client.http import Client

LABELS: Final = "app.kubernetes.io/name=tonnage,app.kubernetes.io/component=scheduler"
CA_FILE: Final = "/tmp/certs/ca.crt"
"""Where the chart and the overlays have the scheduler keep the certificate that it signs itself."""
SCHEDULER_NOT_ASKED: Final = (
    "Not connected to the scheduler, so its reservations are ignored. Add --scheduler-endpoint URL."
)
_PORT: Final = 10259


@dataclass(frozen=True, slots=True)
class InClusterScheduler:
    namespace: str
    service: str
    port: int = _PORT
    pod: str = ""
    """The replica that holds the lease; empty if it is not known."""

    @property
    def url(self) -> str:
        return f"https://{self.service}.{self.namespace}.svc:{self.port}"

    def note(self, kubectl: str, *, is_untrusted: bool) -> str:
        """What to run to be connected. `is_untrusted`: it answers here, with a certificate that is not trusted."""
        there = f"{kubectl} --namespace {self.namespace}"
        target = f"pod/{self.pod}" if self.pod else f"service/{self.service}"
        service = f"{self.namespace}/{self.service}"
        found = f"Not connected to the scheduler (Service {service}), so its reservations are ignored."
        ca = f"`{there} exec {target} -- cat {CA_FILE} > ca.crt`"
        if is_untrusted:
            return f"{found} Its certificate is not trusted: add --scheduler-ca FILE."
        return (
            f"{found} Run `{there} port-forward {target} {self.port}` in another terminal and {ca}, then add "
            f"--scheduler-endpoint https://localhost:{self.port} --scheduler-ca ca.crt."
        )


def find(services: Iterable[Service], leases: Iterable[Lease]) -> InClusterScheduler | None:
    """The first scheduler whose lease a pod holds, else the first Service; None without one. A pod's name begins with
    that of its Deployment, which is the Service's, and a lease's holder with the pod's."""
    holders = sorted(each.spec.holder_identity.partition("_")[0] for each in leases if each.spec.holder_identity)
    found = [
        InClusterScheduler(
            each.namespace,
            each.name,
            next((port.port for port in each.spec.ports), _PORT),
            next((name for name in holders if name.startswith(f"{each.name}-")), ""),
        )
        for each in sorted(services, key=lambda each: each.key)
    ]
    return next((each for each in found if each.pod), found[0] if found else None)


@dataclass(frozen=True, slots=True)
class SchedulerSearch:
    """How to look for it: whose certificates are trusted, who asks, and how the user calls kubectl."""

    ca_pem: bytes = b""
    user: KubeconfigUser = field(default_factory=KubeconfigUser)
    kubectl: str = "kubectl"

    async def find(self, client: Client) -> tuple[Endpoint | None, str]:
        """The endpoint, if it can be reached from here and is trusted; otherwise None, and what to say about it."""
        services, leases = list[Service](), list[Lease]()
        with suppress(TonnageError):  # what may not be read is not found
            services = list((await client.list(Service, label_selector=LABELS, retry=False)).items)
            selected = "metadata.namespace!=kube-node-lease"
            leases = list((await client.list(Lease, field_selector=selected, retry=False)).items) if services else []
        found = find(services, leases)
        if found is None:
            return None, SCHEDULER_NOT_ASKED
        return await self._tried(found, client)

    async def _tried(self, found: InClusterScheduler, client: Client) -> tuple[Endpoint | None, str]:
        from tonnage.client.errors import Untrusted
        from tonnage.client.program_pages import ProgramPages

        endpoint = Endpoint(found.url, self.ca_pem)
        try:
            async with ProgramPages(endpoint, clock=client.clock) as pages:
                await pages.is_good("/livez")
        except TonnageError as exc:
            return None, found.note(self.kubectl, is_untrusted=isinstance(exc, Untrusted))
        return endpoint, ""
