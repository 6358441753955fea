"""Workloads are expanded to the pods and claims that their controllers would make."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.whatif.creation import Creation
from tonnage.whatif.expansion import Expansion, WorkloadExpander
from tonnage.whatif.manifest_errors import BrokenManifest
from tonnage.whatif.sources import ClusterState, from_files
from tonnage.whatif.workloads import find_workload, workload_name

NODES = """
apiVersion: v1
kind: NodeList
items:
- {metadata: {name: a, labels: {disk: ssd}}}
- {metadata: {name: b}}
- {metadata: {name: c, labels: {disk: ssd}}, spec: {taints: [{key: special, effect: NoSchedule}]}}
---
"""
STATEFUL_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: x}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}, storageClassName: fast}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: x}]
      volumes:
      - name: scratch
        ephemeral:
          volumeClaimTemplate:
            spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {nodeSelector: {disk: ssd}, containers: [{name: c, image: x}]}
"""
JOB_TEMPLATE = "{spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}"
JOB_SPEC = f"{{parallelism: 3, completions: 2, completionMode: Indexed, template: {JOB_TEMPLATE}}}"
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: load}}
spec: {JOB_SPEC}
"""
CRON_JOB = f"""
apiVersion: batch/v1
kind: CronJob
metadata: {{name: nightly}}
spec: {{schedule: "0 3 * * *", jobTemplate: {{spec: {JOB_SPEC}}}}}
"""


def state_of(tmp_path: Path, *texts: str) -> tuple[ClusterState, Creation]:
    file, creation = tmp_path / "cluster.yaml", Creation(Gates())
    file.write_text("---\n".join((NODES, *texts)))
    return from_files([str(file)], creation, with_workloads=True), creation


def expanded(tmp_path: Path, name: str, *texts: str) -> Expansion:
    state, creation = state_of(tmp_path, *texts)
    workload = find_workload(workload_name(name), (*state.objects, *state.workloads), state.source)
    return WorkloadExpander(state, creation, []).expand(workload)


def test_a_stateful_set_has_pods_and_claims_by_ordinal(tmp_path: Path):
    found = expanded(tmp_path, "sts/shop/db", STATEFUL_SET)
    assert [each.pod.key for each in found.missing] == ["shop/db-0", "shop/db-1", "shop/db-2"]
    assert [claim.key for each in found.missing for claim in each.claims] == [
        f"shop/data-db-{ordinal}" for ordinal in range(3)
    ]
    pod = found.missing[1].pod
    assert pod.metadata.labels["apps.kubernetes.io/pod-index"] == "1"
    assert pod.spec.volumes[0].claim_name(pod.name) == "data-db-1"
    assert pod.metadata.owner_references[0].kind == "StatefulSet"
    assert pod.spec.tolerations, "admitted as a server would: every pod tolerates a node's hiccup"


def test_of_a_workload_without_end_the_first_pods_are_looked_at_and_a_warning_says_so(tmp_path: Path):
    state, creation = state_of(tmp_path, STATEFUL_SET.replace("replicas: 3", "replicas: 2147483647"))
    warnings: list[str] = []
    workload = find_workload(workload_name("sts/shop/db"), (*state.objects, *state.workloads), state.source)
    assert len(WorkloadExpander(state, creation, warnings).expand(workload).missing) == 1000
    assert warnings == [
        "StatefulSet shop/db asks for 2,147,483,647 more pods, of which the first 1,000 are explained; tonnage fit "
        "counts how many fit"
    ]


def test_what_is_there_already_is_not_made_again(tmp_path: Path):
    uid = "11111111-1111-1111-1111-111111111111"
    pod = f"""
apiVersion: v1
kind: Pod
metadata:
  name: db-0
  namespace: shop
  ownerReferences: [{{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: {uid}, controller: true}}]
spec: {{nodeName: a, containers: [{{name: c, image: x}}]}}
"""
    claim = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-db-2, namespace: shop}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
"""
    owner = STATEFUL_SET.replace("namespace: shop}", f"namespace: shop, uid: {uid}}}", 1)
    found = expanded(tmp_path, "StatefulSet/shop/db", owner, pod, claim)
    assert [each.key for each in found.present] == ["shop/db-0"]
    assert [(each.pod.name, [claim.name for claim in each.claims]) for each in found.missing] == [
        ("db-1", ["data-db-1"]),
        ("db-2", []),
    ]


def test_a_deployment_has_a_replica_set_and_a_claim_for_each_ephemeral_volume(tmp_path: Path):
    found = expanded(tmp_path, "deploy/web", DEPLOYMENT)
    (made,) = found.made
    assert made.name.startswith("web-")
    for each in found.missing:
        assert each.pod.name.startswith(f"{made.name}-")
        assert each.pod.metadata.owner_references[0].uid == made.uid
        assert [claim.name for claim in each.claims] == [f"{each.pod.name}-scratch"]
        assert each.claims[0].metadata.owner_references[0].uid == each.pod.uid
    assert len({each.pod.name for each in found.missing}) == 2
    again = expanded(tmp_path, "deploy/web", DEPLOYMENT)
    assert [each.pod.name for each in again.missing] == [each.pod.name for each in found.missing]


def test_a_daemon_set_has_a_pod_for_each_node_that_will_have_it(tmp_path: Path):
    found = expanded(tmp_path, "ds/agent", DAEMON_SET)
    (replica,) = found.missing
    affinity = replica.pod.spec.affinity.node_affinity.required
    assert affinity is not None
    assert affinity.node_selector_terms[0].match_fields[0].values == ("a",)


@pytest.mark.parametrize(("name", "prefix"), [("job/load", "load-"), ("cronjob/nightly", "nightly-")])
def test_a_job_has_as_many_pods_as_run_at_once(tmp_path: Path, name: str, prefix: str):
    found = expanded(tmp_path, name, JOB, CRON_JOB)
    assert len(found.missing) == 2
    assert [each.pod.metadata.annotations["batch.kubernetes.io/job-completion-index"] for each in found.missing] == [
        "0",
        "1",
    ]
    assert all(each.pod.name.startswith(prefix) for each in found.missing)


def test_more_replicas_go_on_for_as_long_as_somebody_asks(tmp_path: Path):
    state, creation = state_of(tmp_path, STATEFUL_SET)
    workload = find_workload(workload_name("sts/shop/db"), state.objects, state.source)
    _, more = WorkloadExpander(state, creation, []).more(workload)
    assert [each.pod.name for each in islice(more, 5)] == [f"db-{ordinal}" for ordinal in range(5)]


def test_a_template_that_a_server_would_refuse_is_refused_with_its_place(tmp_path: Path):
    broken = DEPLOYMENT.replace("image: x", "image: x, resources: {requests: {cpu: -1}}")
    with pytest.raises(BrokenManifest, match=r"Deployment default/web\): .*cpu"):
        expanded(tmp_path, "deploy/web", broken)


def test_a_misspelt_field_of_a_job_is_an_error(tmp_path: Path):
    with pytest.raises(BrokenManifest, match=r"Job load.*paralelism"):
        state_of(tmp_path, JOB.replace("parallelism", "paralelism"))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("db", "is not KIND/NAMESPACE/NAME", "StatefulSet/shop/db"),
        ("StatefullSet/shop/db", 'called "StatefullSet"', "StatefulSet"),
        ("sts/a/b/c", "is not KIND/NAMESPACE/NAME", "sts/shop/db"),
        ("sts//db", "is not KIND/NAMESPACE/NAME", "sts/shop/db"),
    ],
)
def test_a_name_that_means_no_workload_is_an_error(text: str, message: str, hint: str):
    with pytest.raises(TonnageError) as caught:
        workload_name(text)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_workload_that_is_not_there_is_an_error_that_names_others(tmp_path: Path):
    with pytest.raises(TonnageError) as caught:
        expanded(tmp_path, "deploy/shop/db", STATEFUL_SET)
    assert caught.value.hint == "did you mean StatefulSet/shop/db?"
