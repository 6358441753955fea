"""A scheduler that would wait for kube-scheduler's lease for ever does not start."""

from __future__ import annotations

import json

import pytest

from tonnage.errors import TonnageError
from tonnage.scheduler.configuration_file import check_lease
from tonnage.scheduling.configuration.configuration import Configuration, parse


def configuration(*names: str, **election: object) -> Configuration:
    doc = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": election,
        "profiles": [{"schedulerName": name} for name in names],
    }
    return parse(json.dumps(doc), source="scheduler.yaml")


def test_kube_schedulers_lease_without_its_pods_is_an_error_that_names_the_remedy():
    with pytest.raises(TonnageError) as refused:
        check_lease(configuration("tonnage", "batch"))
    assert refused.value.message == (
        "the lease kube-system/kube-scheduler is kube-scheduler's, and no profile here serves default-scheduler: this "
        "scheduler (tonnage, batch) would wait for it for ever"
    )
    assert refused.value.hint == (
        "give it a lease of its own: --leader-elect-resource-name=tonnage, or leaderElection.resourceName: tonnage in "
        "the configuration"
    )


@pytest.mark.parametrize(
    ("names", "election"),
    [
        (["default-scheduler"], {}),
        (["default-scheduler", "tonnage"], {}),
        (["tonnage"], {"resourceName": "tonnage"}),
        (["tonnage"], {"resourceNamespace": "shop"}),
        (["tonnage"], {"leaderElect": False}),
        (["default-scheduler"], {"leaderElect": False, "resourceName": "tonnage"}),
    ],
)
def test_every_other_choice_is_fine(names, election):
    assert check_lease(configuration(*names, **election)) == ""


def test_the_default_pods_under_a_lease_of_its_own_are_warned_of():
    assert check_lease(configuration("default-scheduler", resourceName="tonnage")) == (
        "default-scheduler is served under the lease kube-system/tonnage, not kube-system/kube-scheduler: a "
        "kube-scheduler that runs too would place the same pods at the same time"
    )
