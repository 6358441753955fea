"""The chart and the overlays: they render, they refuse what is wrong, and they say the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from rendered import (
    CHART,
    KUSTOMIZE,
    NAMESPACE,
    OVERLAYS,
    ROOT,
    VALUES,
    chart_objects,
    documents,
    helm,
    identity,
    needs_helm,
    needs_kubectl,
    normalised,
    overlay_objects,
    run,
    template,
    the,
)

from tonnage import __version__
from tonnage.gates import Gates
from tonnage.scheduler.configuration_file import load_configuration
from tonnage.scheduler.installed_plugins import foreign_plugins

SAME = ("second-scheduler", "only-scheduler", "pools", "pools-command")
"""Choices that both tools know by one name."""


def test_deploy_holds_what_its_sources_say():
    done = run(sys.executable, ROOT / "scripts" / "write-manifests", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_has_tonnages_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_every_value_is_in_the_schema_and_every_object_of_it_is_closed():
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(value: object, rule: dict[str, object], path: str) -> None:
        properties = rule.get("properties")
        if not isinstance(properties, dict) or not isinstance(value, dict):
            return
        assert rule["additionalProperties"] is False, path
        assert set(value) == set(properties) - {"global", "claims"}, path
        for name, below in value.items():
            assert "description" in properties[name] or "properties" in properties[name], f"{path}.{name}"
            compare(below, properties[name], f"{path}.{name}")

    compare(values, schema, "")


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_helm_lints_the_chart(values: str):
    done = helm("lint", "--strict", CHART, "-f", VALUES[values], "--namespace", NAMESPACE)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_names_are_unique_and_everything_is_labelled(values: str):
    objects = chart_objects(values)
    assert len({identity(each) for each in objects}) == len(objects) > 0
    for each in objects:
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "tonnage"


@needs_helm
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("scheduler.replica=3", "replica"),
        ("schedular.replicas=3", "schedular"),
        ("scheduler.storageCapacity.reserved=true", "reserved"),
        ("scheduler.mode=third", "scheduler.mode must be one of the following"),
        ("scheduler.storageCapacity.reservation=Some", "scheduler.storageCapacity.reservation must be one of"),
        ("scheduler.storageCapacity.poolFit=Sure", "scheduler.storageCapacity.poolFit must be one of"),
        ("scheduler.storageCapacity.legacyPools=Loose", "scheduler.storageCapacity.legacyPools must be one of"),
        ("scheduler.replicas=many", "scheduler.replicas"),
        ("scheduler.schedulerName=default-scheduler", "scheduler.schedulerName"),
        ("scheduler.leaderElection.leaseDuration=15", "scheduler.leaderElection.leaseDuration"),
        ("scheduler.featureGates.CSIStorageCapacityV2=maybe", "scheduler.featureGates.CSIStorageCapacityV2"),
        ("image.digest=sha256:short", "image.digest"),
        ("image.pullPolicy=Sometimes", "image.pullPolicy"),
        ("pools.source=lvm", "pools.source must be one of"),
        ("scheduler.leaderElection.enabled=false", "two schedulers would place the same pods"),
        ("pools.enabled=true,pools.source=command", "pools.command says what is run on each node"),
        ("pools.enabled=true,pools.source=nodes", "pools.drivers says which"),
        ("provisioner.enabled=true", "provisioner.enabled needs provisioner.driver"),
        ("scheduler.serviceAccount.create=false", "scheduler.serviceAccount.name is needed"),
        ("scheduler.config.kind=x,scheduler.config.leaderElection.resourceName=y", "names the lease kube-system/y"),
    ],
)
def test_wrong_values_are_refused_in_words(setting: str, told: str):
    done = template("--set", setting)
    assert done.returncode != 0
    assert told in done.stderr


@needs_helm
@needs_kubectl
@pytest.mark.parametrize("choice", SAME)
def test_chart_and_overlay_describe_the_same_objects(choice: str):
    assert normalised(chart_objects(choice)) == normalised(overlay_objects(choice))


@needs_helm
@needs_kubectl
def test_chart_and_overlay_give_a_provisioner_the_same_rights():
    theirs = normalised(overlay_objects("provisioner"))
    for name, ours in normalised(chart_objects("provisioner")).items():
        ours["metadata"].pop("labels")
        assert ours == theirs[name]


@needs_kubectl
def test_components_can_be_added_to_an_overlay(tmp_path: Path):
    above = "/".join([".."] * len(tmp_path.parts[1:]))
    base = f"{above}{KUSTOMIZE}"
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{base}/overlays/second-scheduler]\n"
        f"components: [{base}/components/network-policy, {base}/components/reader, {base}/components/monitoring]\n"
    )
    done = run("kubectl", "kustomize", tmp_path)
    assert done.returncode == 0, done.stderr
    kinds = {each["kind"] for each in documents(done.stdout)}
    assert {"NetworkPolicy", "ServiceMonitor", "PrometheusRule"} <= kinds
    dashboard = the(documents(done.stdout), "ConfigMap", "tonnage-dashboard")
    assert json.loads(dashboard["data"]["tonnage.json"])["panels"]
    assert the(documents(done.stdout), "ClusterRole", "tonnage-reader")["rules"]


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_the_scheduler_reads_the_configuration_that_is_rendered(values: str, tmp_path: Path):
    for each in chart_objects(values):
        if each["kind"] == "ConfigMap" and "scheduler.yaml" in each["data"]:
            file = tmp_path / "scheduler.yaml"
            file.write_text(each["data"]["scheduler.yaml"])
            load_configuration(file, Gates.parse(""), foreign_plugins())


@needs_helm
def test_the_lease_that_is_named_is_the_one_that_may_be_held():
    for values in ("second-scheduler", "only-scheduler", "everything"):
        objects = chart_objects(values)
        (text,) = (each["data"]["scheduler.yaml"] for each in objects if "scheduler.yaml" in each.get("data", {}))
        election = yaml.safe_load(text)["leaderElection"]
        (role,) = (
            each
            for each in objects
            if each["kind"] == "Role"
            and each["metadata"]["labels"]["app.kubernetes.io/component"] == "scheduler"
            and any("leases" in rule["resources"] for rule in each["rules"])
        )
        assert role["metadata"]["namespace"] == election["resourceNamespace"]
        named = [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]
        assert named == [[election["resourceName"]]]


@needs_helm
def test_a_second_release_has_names_of_its_own():
    first, second = documents(template().stdout), documents(template(release="other").stdout)
    assert not {identity(each) for each in first} & {identity(each) for each in second}


@needs_helm
def test_a_change_of_the_configuration_rolls_the_pods():
    def checksum(*arguments: str) -> str:
        deployment = the(documents(template(*arguments).stdout), "Deployment", "tonnage-scheduler")
        told: str = deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        return told

    assert checksum() == checksum() != checksum("--set", "scheduler.storageCapacity.poolFit=Guaranteed")


@needs_helm
def test_rules_and_dashboard_are_the_files_of_monitoring():
    objects = chart_objects("everything")
    rule = the(objects, "PrometheusRule", "storage-scheduler")
    assert rule["spec"] == yaml.safe_load((ROOT / "deploy" / "monitoring" / "prometheus-rules.yaml").read_text())
    dashboard = the(objects, "ConfigMap", "storage-scheduler-dashboard")
    shipped = (ROOT / "deploy" / "monitoring" / "grafana-dashboard.json").read_text()
    assert json.loads(dashboard["data"]["tonnage.json"]) == json.loads(shipped)


@needs_helm
def test_an_image_goes_by_its_digest_where_there_is_one():
    digest = f"sha256:{'a' * 64}"
    done = template("--set", f"image.digest={digest},image.tag=ignored")
    deployment = the(documents(done.stdout), "Deployment", "tonnage-scheduler")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"tonnage@{digest}"


def test_every_overlay_is_tested():
    assert set(OVERLAYS) == {*SAME, "provisioner"}
