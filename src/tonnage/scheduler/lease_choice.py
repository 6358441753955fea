"""Two schedulers do not wait for each other's lease by accident.

kube-scheduler holds the lease kube-system/kube-scheduler for as long as it lives. A second scheduler that asks for the
same lease waits for ever, says nothing, and its pods stay pending. So that lease is for who serves the same pods: those
of `default-scheduler`. The other way round, two schedulers with leases of their own that both serve
`default-scheduler` work at the same time on the same pods.
"""

from __future__ import annotations

from tonnage.errors import TonnageError
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.configuration.file import LeaderElection
from tonnage.scheduling.configuration.profile import DEFAULT_SCHEDULER_NAME

_KUBE_SCHEDULERS = (LeaderElection().resource_namespace, LeaderElection().resource_name)


class WaitsForKubeScheduler(TonnageError):
    """The lease is kube-scheduler's, and the pods are not."""


def check_lease(configuration: Configuration) -> str:
    """A warning about the lease, empty for none. Raises WaitsForKubeScheduler."""
    election = configuration.leader_election
    if not election.leader_elect:
        return ""
    names = [profile.scheduler_name for profile in configuration.profiles]
    lease = (election.resource_namespace, election.resource_name)
    serves_default = DEFAULT_SCHEDULER_NAME in names
    if lease == _KUBE_SCHEDULERS and not serves_default:
        raise WaitsForKubeScheduler(
            f"the lease kube-system/kube-scheduler is kube-scheduler's, and no profile here serves "
            f"{DEFAULT_SCHEDULER_NAME}: this scheduler ({', '.join(names)}) would wait for it for ever",
            hint=f"give it a lease of its own: --leader-elect-resource-name={names[0]}, or "
            f"leaderElection.resourceName: {names[0]} in the configuration",
        )
    if lease != _KUBE_SCHEDULERS and serves_default:
        return (
            f"{DEFAULT_SCHEDULER_NAME} is served under the lease {'/'.join(lease)}, not kube-system/kube-scheduler: a "
            "kube-scheduler that runs too would place the same pods at the same time"
        )
    return ""
