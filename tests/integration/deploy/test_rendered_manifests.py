"""The chart and the overlays: they render, they refuse what is wrong, and they say the same."""

from __future__ import annotations

import base64
import json
import shutil
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
    pod_template,
    run,
    template,
    the,
)

from tonnage import __version__
from tonnage.gates import Gates
from tonnage.scheduler.configuration_file import load_configuration

SAME = ("second-scheduler", "only-scheduler", "pools", "pools-command")
"""Choices that both tools know by one name."""


def test_deploy_holds_what_its_sources_say():
    done = run(sys.executable, ROOT / "scripts" / "write-manifests", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_has_tonnages_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


OPEN = {".scheduler.config"}
"""A file of another format, which the scheduler itself reads strictly: here only what templates read has a type."""
UNSET = {"global", "claims", "initialDelaySeconds", "type", "rollingUpdate"}
"""What may be set and has no default here."""


def test_every_value_is_in_the_schema_and_every_object_of_it_is_closed():
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(value: object, rule: dict[str, object], path: str) -> None:
        if "$ref" in rule:
            rule = schema["definitions"][str(rule["$ref"]).rsplit("/", 1)[1]]
        properties = rule.get("properties")
        if not isinstance(properties, dict) or not isinstance(value, dict) or path in OPEN:
            return
        assert rule["additionalProperties"] is False, path
        assert set(value) - UNSET == set(properties) - UNSET, path
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


CONFIGURED = (
    "scheduler.config.kind=KubeSchedulerConfiguration,scheduler.config.apiVersion=kubescheduler.config.k8s.io/v1"
)


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
        ("scheduler.schedulerName=default-scheduler", "scheduler.schedulerName must not be default-scheduler beside"),
        ("scheduler.config.kind=Pod", 'scheduler.config.kind is "Pod": it must be KubeSchedulerConfiguration'),
        (
            "scheduler.config.kind=KubeSchedulerConfiguration,scheduler.config.apiVersion=v1",
            'scheduler.config.apiVersion is "v1": it must be kubescheduler.config.k8s.io/v1',
        ),
        (f"{CONFIGURED},scheduler.config.profile=x", "scheduler.config.profile is not a field of"),
        (f"{CONFIGURED},scheduler.config.profiles=5", "scheduler.config.profiles: Invalid type. Expected: array"),
        (f"{CONFIGURED},scheduler.config.profiles[0]=a", "scheduler.config.profiles.0: Invalid type. Expected: object"),
        (f"{CONFIGURED},scheduler.config.extenders[0].urlPrefix=x", "Tonnage has no extenders"),
        (
            f"{CONFIGURED},scheduler.config.profiles[0].schedulerName=a,scheduler.config.profiles[1].schedulerName=a",
            'scheduler.config.profiles[1].schedulerName is "a", and another profile has that name too',
        ),
        (
            "dashboard.enabled=true,dashboard.ingress.enabled=true",
            "dashboard.ingress.enabled needs dashboard.ingress.host",
        ),
        (
            f"{CONFIGURED},scheduler.config.profiles[0].plugin=a",
            "scheduler.config.profiles[0].plugin is not a field of a profile",
        ),
        (
            f"{CONFIGURED},scheduler.replicas=1,scheduler.config.leaderElection.leaderElect=false,"
            "scheduler.config.profiles[0].percentageOfNodesToScore=50",
            "scheduler.config.profiles[0] must not serve default-scheduler beside kube-scheduler",
        ),
        (
            f"{CONFIGURED},scheduler.config.profiles[0].schedulerName=default-scheduler,"
            f"scheduler.config.leaderElection.resourceName=own,"
            f"scheduler.config.leaderElection.resourceNamespace={NAMESPACE}",
            "scheduler.config.profiles[0] must not serve default-scheduler beside kube-scheduler",
        ),
        ("scheduler.livenessProbe.periodSeconds=0", "scheduler.livenessProbe.periodSeconds"),
        ("scheduler.livenessProbe.httpGet.path=x", "scheduler.livenessProbe"),
        ("scheduler.leaderElection=null", "scheduler: leaderElection is required"),
        ("monitoring=null", "monitoring is required"),
        ("scheduler.strategy.kind=Never", "scheduler.strategy"),
        ("scheduler.strategy.type=Never", "scheduler.strategy.type must be one of"),
        ("scheduler.featureGates.CSIStorageCapacityV3=true", "scheduler.featureGates"),
        (
            "scheduler.leaderElection.leaseDuration=5s",
            "scheduler.leaderElection.leaseDuration is 5s: it must be longer than renewDeadline, which is 10s",
        ),
        (
            "scheduler.leaderElection.retryPeriod=1m30s",
            "scheduler.leaderElection.renewDeadline is 10s: it must be longer than retryPeriod, which is 1m30s",
        ),
        ("monitoring.prometheusRule.runbookUrl=docs", "it must be an http or https URL"),
        ("scheduler.leaderElection.leaseDuration=15", "scheduler.leaderElection.leaseDuration"),
        ("scheduler.leaderElection.leaseDuration=15x", "it must be a duration"),
        ("scheduler.featureGates.CSIStorageCapacityV2=maybe", "scheduler.featureGates.CSIStorageCapacityV2"),
        ("image.digest=sha256:short", "it must be sha256: followed by 64 hexadecimal digits"),
        ("image.pullPolicy=Sometimes", "image.pullPolicy"),
        ("pools.source=lvm", "pools.source must be one of"),
        ("scheduler.leaderElection.enabled=false", "two schedulers would place the same pods"),
        ("pools.enabled=true,pools.source=command", "pools.source=command needs pools.command"),
        ("pools.enabled=true,pools.source=nodes", "name yours in pools.drivers"),
        ("provisioner.enabled=true", "provisioner.enabled needs provisioner.driver"),
        ("scheduler.serviceAccount.create=false", "scheduler.serviceAccount.name is needed"),
        ("commonLabels.app\\.kubernetes\\.io/name=mine", "commonLabels"),
        ("scheduler.podLabels.app\\.kubernetes\\.io/component=mine", "scheduler.podLabels"),
        ("commonLabels.team=two words", "commonLabels.team"),
        (f"fullnameOverride={'a' * 51}", "fullnameOverride"),
        ("fullnameOverride=Loud_Name", "fullnameOverride"),
        ("nameOverride=-x", 'nameOverride is "-x": it must be a name'),
        ("scheduler.bindAddress=", "scheduler.bindAddress"),
        ("scheduler.securePort=0", "scheduler.securePort"),
        ("scheduler.securePort=65536", "scheduler.securePort"),
        ("scheduler.replicas=-1", "scheduler.replicas"),
        ("scheduler.networkPolicy.apiServerPorts=[]", "scheduler.networkPolicy.apiServerPorts"),
        ("image.repository=", "it must be an image without its tag"),
        ("image.tag=1.0 beta", "image.tag"),
        ("monitoring.serviceMonitor.bearerTokenSecret.name=x", "monitoring.serviceMonitor.bearerTokenSecret"),
        ("provisioner.rights.serving=true", "provisioner.rights"),
        (f"{CONFIGURED},scheduler.config.leaderElection.resourceName=y", "names the lease kube-system/y"),
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
            load_configuration(file, Gates.parse(""))


@needs_helm
@needs_kubectl
def test_the_lease_that_is_named_is_the_one_that_may_be_held(tmp_path: Path):
    """kustomize writes the hash of a generated name wherever that name stands, and a prefix as well."""
    base = f"{'/'.join(['..'] * len(tmp_path.parts[1:]))}{KUSTOMIZE}"
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{base}/overlays/second-scheduler]\nnamePrefix: my-\n")
    prefixed = run("kubectl", "kustomize", tmp_path)
    assert prefixed.returncode == 0, prefixed.stderr
    choices = [chart_objects(values) for values in ("second-scheduler", "only-scheduler", "everything")]
    choices += [overlay_objects(name) for name in ("second-scheduler", "only-scheduler")]
    for objects in (*choices, documents(prefixed.stdout)):
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
def test_a_release_of_the_same_name_in_another_namespace_has_names_of_its_own():
    def named(namespace: str) -> set[tuple[str, str, str]]:
        done = helm("template", "tonnage", CHART, "--namespace", namespace, "-f", VALUES["everything"])
        assert done.returncode == 0, done.stderr
        return {identity(each) for each in documents(done.stdout)}

    assert not named("a") & named("b")
    assert not named("a") & named(NAMESPACE)


@needs_helm
@pytest.mark.parametrize("namespace", ["kube-system", "storage", NAMESPACE])
@pytest.mark.parametrize("values", VALUES)
def test_every_binding_refers_to_a_role_that_is_there(values: str, namespace: str):
    done = helm("template", "tonnage", CHART, "--namespace", namespace, "-f", VALUES[values])
    objects = documents(done.stdout)
    there = {identity(each) for each in objects} | {
        ("Role", "kube-system", "extension-apiserver-authentication-reader")
    }
    for each in objects:
        if "roleRef" in each:
            ref = each["roleRef"]
            where = "" if ref["kind"] == "ClusterRole" else each["metadata"]["namespace"]
            assert (ref["kind"], where, ref["name"]) in there, identity(each)


@needs_helm
def test_long_names_of_releases_stay_apart_and_short_enough():
    """53 letters is Helm's limit of a release's name, 63 that of a Service's."""
    found = []
    for last in "ab":
        objects = documents(template(release="x" * 52 + last).stdout)
        found.append({identity(each) for each in objects})
        for kind, _, name in found[-1]:
            assert len(name) <= (63 if kind in ("Service", "Deployment") else 253), name
        for each in objects:
            assert all(len(value) <= 63 for value in each["metadata"]["labels"].values())
    assert not found[0] & found[1]


@needs_helm
def test_replicas_that_never_share_a_node_are_rolled_without_one_more():
    """On as many nodes as replicas there is no place for one more, and the rollout would hang."""
    for values, strategy in (("second-scheduler", (1, 0)), ("everything", (0, 1))):
        (one,) = (
            each
            for each in chart_objects(values)
            if each["kind"] == "Deployment" and each["metadata"]["labels"]["app.kubernetes.io/component"] == "scheduler"
        )
        rolling = one["spec"]["strategy"]["rollingUpdate"]
        assert (rolling["maxSurge"], rolling["maxUnavailable"]) == strategy


@needs_helm
def test_what_a_platform_asks_of_pods_can_be_set():
    objects = chart_objects("openshift")
    deployment = the(objects, "Deployment", "tonnage-scheduler")["spec"]
    pod = deployment["template"]["spec"]
    # OpenShift's restricted SCC chooses the user: keys that are null are not there.
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    probe = pod["containers"][0]["livenessProbe"]
    assert (probe["failureThreshold"], probe["periodSeconds"], probe["httpGet"]["path"]) == (20, 10, "/livez")
    assert deployment["strategy"] == {"type": "Recreate"}
    (constraint,) = pod["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "topology.kubernetes.io/rack"
    assert pod["dnsPolicy"] == "Default" and "hostNetwork" not in pod


@needs_helm
def test_a_probe_is_delayed_or_left_out():
    done = template("--set", "scheduler.livenessProbe=null", "--set", "scheduler.readinessProbe.initialDelaySeconds=7")
    assert done.returncode == 0, done.stderr
    pod = the(documents(done.stdout), "Deployment", "tonnage-scheduler")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "livenessProbe" not in container
    assert container["readinessProbe"]["initialDelaySeconds"] == 7


def test_the_chart_takes_the_gates_that_the_scheduler_knows():
    schema = json.loads((CHART / "values.schema.json").read_text())
    gates = schema["properties"]["scheduler"]["properties"]["featureGates"]["propertyNames"]["enum"]
    assert set(gates) == {"AllAlpha", "AllBeta", *Gates.table()}


@needs_helm
def test_alerts_link_to_where_the_documentation_is_published():
    groups = the(chart_objects("openshift"), "PrometheusRule", "tonnage")["spec"]["groups"]
    links = [rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"] if "alert" in rule]
    assert links and all(link.startswith("https://docs.example.com/tonnage/guides/observe.md#") for link in links)


@needs_helm
def test_the_dashboard_is_off_by_default_and_comes_with_an_account_that_only_reads():
    assert not any("dashboard" in name for _, _, name in map(identity, chart_objects("second-scheduler")))
    objects = chart_objects("dashboard")
    (rules,) = (each["rules"] for each in objects if identity(each) == ("ClusterRole", "", "tonnage-dashboard"))
    assert {verb for rule in rules for verb in rule["verbs"]} <= {"get", "list", "watch"}
    spec = the(objects, "Deployment", "tonnage-dashboard")["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "tonnage-dashboard"
    assert "--allowed-host=storage.example.com" in spec["containers"][0]["args"]
    (rule,) = the(objects, "Ingress", "tonnage-dashboard")["spec"]["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    service = the(objects, "Service", "tonnage-dashboard")
    assert (backend["name"], backend["port"]["name"]) == ("tonnage-dashboard", service["spec"]["ports"][0]["name"])
    token = the(objects, "Secret", "tonnage-dashboard")["data"]["token"]
    assert len(base64.b64decode(token)) >= 16


@needs_helm
def test_behind_a_proxy_the_dashboard_is_reached_by_that_proxy_alone():
    objects = chart_objects("dashboard-behind-proxy")
    spec = the(objects, "Deployment", "tonnage-dashboard")["spec"]["template"]["spec"]
    dashboard, proxy = spec["containers"]
    assert "--bind=127.0.0.1" in dashboard["args"] and "ports" not in dashboard and proxy["name"] == "oauth2-proxy"
    assert the(objects, "Service", "tonnage-dashboard")["spec"]["ports"][0]["targetPort"] == 4180
    assert not any(each["kind"] == "Secret" for each in objects)  # it was given


@needs_helm
def test_helm_test_asks_the_service_that_is_there():
    objects = chart_objects("second-scheduler")
    (asking,) = (each for each in objects if each["kind"] == "Pod")
    assert asking["metadata"]["annotations"]["helm.sh/hook"] == "test"
    service = the(objects, "Service", "tonnage-scheduler")
    address = f"https://tonnage-scheduler.{NAMESPACE}.svc:{service['spec']['ports'][0]['port']}/readyz"
    assert address in asking["spec"]["containers"][0]["command"][-1]


@needs_helm
def test_a_certificate_of_ones_own_can_be_mounted_and_looked_at_by_prometheus():
    done = template("-f", VALUES["own-certificate"])
    assert done.returncode == 0, done.stderr
    objects = documents(done.stdout)
    spec = the(objects, "Deployment", "tonnage-scheduler")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    for flag in ("--tls-cert-file=", "--tls-private-key-file="):
        (path,) = (word.removeprefix(flag) for word in container["args"] if word.startswith(flag))
        assert str(Path(path).parent) in mounted
    assert {each["name"] for each in container["volumeMounts"]} <= {each["name"] for each in spec["volumes"]}
    (endpoint,) = the(objects, "ServiceMonitor", "tonnage-scheduler")["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {
        "ca": {"configMap": {"name": "storage-ca", "key": "ca.crt"}},
        "serverName": "tonnage-scheduler.tonnage-system.svc",
    }


@needs_helm
def test_every_right_of_a_provisioner_that_can_be_chosen_is_a_role():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    words = {"".join(f"-{c.lower()}" if c.isupper() else c for c in name) for name in values["provisioner"]["rights"]}
    roles = yaml.safe_load_all((CHART / "files" / "roles" / "provisioner.yaml").read_text())
    assert words == {each["metadata"].get("annotations", {}).get("tonnage.dev/right") for each in roles if each} - {
        None
    }


@needs_helm
def test_the_notes_name_the_container_that_the_component_adds(tmp_path: Path):
    """Its environment says where capacity is published: elsewhere the account may not."""
    shown = notes("provisioner", tmp_path / "0")
    begin = shown.index("  - name: tonnage-provisioner")
    (told,) = yaml.safe_load(shown[begin : shown.index("\n\nIt takes")])
    sidecar = yaml.safe_load((KUSTOMIZE / "components" / "provisioner" / "sidecar.yaml").read_text())
    (container,) = sidecar["spec"]["template"]["spec"]["containers"]
    assert told["env"] == container["env"]
    assert told["volumeMounts"] == container["volumeMounts"]
    assert set(told["args"]) <= set(container["args"])


@needs_helm
def test_the_notes_say_what_is_so(tmp_path: Path):
    assert "names no registry" in notes("second-scheduler", tmp_path / "1")
    assert "names no registry" not in notes("everything", tmp_path / "2")
    assert "get lease" not in notes("whole-configuration", tmp_path / "3")
    assert "tonnage,tonnage-packed" in notes("whole-configuration", tmp_path / "4")
    assert "rollout status daemonset tonnage-pools" in notes("pools-command", tmp_path / "5")


def notes(values: str, folder: Path) -> str:
    """What Helm prints after an install; `helm template` leaves it out, unless it is a template like any other."""
    chart = folder / values
    shutil.copytree(CHART, chart)
    text = (chart / "templates" / "NOTES.txt").read_text()
    wrapped = '{{ define "notes" }}' + text + '{{ end }}\nnotes: {{ include "notes" . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text(wrapped)
    chosen = ("-f", VALUES[values], "--show-only", "templates/notes.yaml")
    done = helm("template", "tonnage", chart, "--namespace", NAMESPACE, *chosen)
    assert done.returncode == 0, done.stderr
    told: str = yaml.safe_load(done.stdout)["notes"]
    return told


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


@needs_helm
def test_the_advice_of_doctor_is_values_that_the_chart_takes(tmp_path: Path):
    done = run(sys.executable, "-m", "tonnage", "doctor", "-f", ROOT / "examples/16-doctor/dump", "-o", "helm-values")
    values = tmp_path / "values.yaml"
    values.write_text(done.stdout)
    rendered = template("-f", values)
    assert rendered.returncode == 0, rendered.stderr
    pools = the(documents(rendered.stdout), "Deployment", "tonnage-pools")
    pod = pod_template(pools)
    assert pod is not None and "--source=topolvm" in pod["spec"]["containers"][0]["args"]
