"""Workloads on the embedded server: the controllers beside it in this process, stand-in kubelets, the real kubectl."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from support.workload_stage import CLAIM, stage_in, template, workload
from tonnage.client.informers import Informers
from tonnage.controllers.namespaces import service_account
from tonnage.errors import Conflict, NotFound, TooManyRequests
from tonnage.objects.apps_v1 import ControllerRevision, Deployment, ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod, ReplicationController
from tonnage.objects.small_groups import PodDisruptionBudget


async def test_a_deployment_rolls_out_scales_and_keeps_its_fences(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create("apps/v1", "Deployment", "web", workload(3))
        first = await stage.until_rolled_out("web")
        assert first.metadata.annotations["deployment.kubernetes.io/revision"] == "1"
        assert {c.type: c.reason for c in first.status.conditions} == {
            "Available": "MinimumReplicasAvailable",
            "Progressing": "NewReplicaSetAvailable",
        }
        pods = await stage.pods()
        hash_ = pods[0].metadata.labels["pod-template-hash"]
        assert all(pod.name.startswith(f"web-{hash_}-") for pod in pods)
        doc = await stage.client.get_doc(Pod, pods[0].key)
        assert doc["spec"]["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 1}}}  # nothing is lost

        most, least = 0, 3
        watched = Informers(stage.client)
        seen = watched.of(Pod)
        ready: dict[str, bool] = {}

        def look(pod: Pod) -> None:
            nonlocal most, least
            condition = pod.condition("Ready")
            live = pod.key in seen and not pod.metadata.is_terminating
            ready[pod.key] = live and condition is not None and condition.is_true
            most = max(most, sum(not each.metadata.is_terminating for each in seen))
            least = min(least, sum(ready.values())) if len(ready) >= 3 else least

        async with watched:
            await watched.wait_synced()
            for pod in seen:
                ready[pod.key] = True
            seen.on_change(look)
            change = {"spec": {"template": template("app:2")}}
            await stage.client.patch(Deployment, "default/web", change)
            second = await stage.until_rolled_out("web")
        # 3 replicas, maxSurge 25 % of 3 is 0.75, rounded up 1; maxUnavailable rounded down 0.
        assert (most, least) == (4, 3)
        assert second.metadata.annotations["deployment.kubernetes.io/revision"] == "2"
        sets = (await stage.client.list(ReplicaSet)).items
        assert sorted(each.spec.replicas for each in sets) == [0, 3]

        await stage.client.patch(Deployment, "default/web", {"spec": {"replicas": 1}})
        await stage.until_rolled_out("web")

        async def is_alone() -> bool:
            return len(await stage.pods()) == 1

        await stage.until(is_alone)

        async def is_told() -> bool:
            return f"Scaled up replica set web-{hash_} from 0 to 3" in await stage.notes("ScalingReplicaSet")

        await stage.until(is_told)


async def test_recreate_never_runs_old_and_new_together_and_a_paused_deployment_waits(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create("apps/v1", "Deployment", "web", workload(2, strategy={"type": "Recreate"}))
        await stage.until_rolled_out("web")
        seen = stage.informers.of(Pod)
        together: set[frozenset[str]] = set()
        seen.on_change(lambda _: together.add(frozenset(pod.spec.containers[0].image for pod in seen)))

        change = {"spec": {"paused": True, "template": template("app:2")}}
        await stage.client.patch(Deployment, "default/web", change)

        async def is_paused() -> bool:
            found = await stage.client.get(Deployment, "default/web")
            reasons = {condition.reason for condition in found.status.conditions}
            return found.status.observed_generation == 2 and "DeploymentPaused" in reasons

        await stage.until(is_paused)
        assert len((await stage.client.list(ReplicaSet)).items) == 1
        await stage.client.patch(Deployment, "default/web", {"spec": {"paused": None}})
        await stage.until_rolled_out("web")
        assert together == {frozenset({"app:1"}), frozenset(), frozenset({"app:2"})}


async def test_a_failed_pod_is_replaced_by_its_replica_set(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create("apps/v1", "ReplicaSet", "web", workload(2))

        async def is_whole() -> list[Pod]:
            pods = [pod for pod in await stage.pods() if pod.status.phase == "Running"]
            return pods if len(pods) == 2 else []

        first = await stage.until(is_whole)
        failed = {"status": {"phase": "Failed", "reason": "VolumeAttachmentLimitExceeded", "message": "no slot"}}
        await stage.client.patch(Pod, first[0].key, failed, subresource="status")

        async def is_replaced() -> bool:
            pods = await is_whole()
            return bool(pods) and first[0].uid not in {pod.uid for pod in pods}

        await stage.until(is_replaced)
        assert len(await stage.pods()) == 3  # the failed one stays to be looked at

        async def is_counted() -> bool:
            return (await stage.client.get(ReplicaSet, "default/web")).status.ready_replicas == 2

        await stage.until(is_counted)

        async with asyncio.timeout(10):  # an orphan that matches is adopted, and then there is one too many
            doc = {"apiVersion": "v1", "kind": "Pod", "spec": template()["spec"]}
            doc["metadata"] = {"name": "stray", "namespace": "default", "labels": {"app": "web"}}
            await stage.client.create_doc(doc)

            async def is_two_again() -> bool:
                active = [pod for pod in await stage.pods() if not pod.is_terminal and not pod.metadata.is_terminating]
                return len(active) == 2 and all(pod.metadata.controller is not None for pod in active)

            await stage.until(is_two_again)


async def test_pods_of_an_account_wait_until_it_is_there_and_the_owner_says_why(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        spec = workload(1)
        spec["template"]["spec"]["serviceAccountName"] = "db"
        await stage.create("apps/v1", "StatefulSet", "db", spec)
        await stage.create("apps/v1", "ReplicaSet", "web", workload(1))

        async def is_told() -> bool:
            why = 'error looking up service account default/db: serviceaccount "db" not found'
            return any(why in note for note in await stage.notes("FailedCreate"))

        await stage.until(is_told)
        await stage.client.create_doc(service_account("default") | {"metadata": {"name": "db", "namespace": "default"}})

        async def accounts() -> dict[str, str]:
            docs = [await stage.client.get_doc(Pod, pod.key) for pod in await stage.pods()]
            found = {doc["metadata"]["name"].partition("-")[0]: doc["spec"]["serviceAccountName"] for doc in docs}
            return found if len(found) == 2 else {}

        assert await stage.until(accounts) == {"db": "db", "web": "default"}


async def test_a_replication_controller_keeps_its_size_and_its_status_says_so(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create("v1", "ReplicationController", "old", {**workload(3), "selector": {"app": "web"}})

        async def ready(count: int) -> ReplicationController | None:
            found = await stage.client.get(ReplicationController, "default/old")
            return found if found.status.ready_replicas == found.status.replicas == count else None

        found = await stage.until(lambda: ready(3))
        status = found.status
        assert (status.fully_labeled_replicas, status.available_replicas, status.observed_generation) == (3, 3, 1)
        owners = {pod.metadata.controller.kind for pod in await stage.pods() if pod.metadata.controller}
        assert owners == {"ReplicationController"}
        assert any(note.startswith("Created pod: old-") for note in await stage.notes("SuccessfulCreate"))
        await stage.client.patch(ReplicationController, found.key, {"spec": {"replicas": 1}})
        await stage.until(lambda: ready(1))

        # One that no longer matches is released, and another takes its place.
        alone = next(pod for pod in await stage.pods() if not pod.metadata.is_terminating)
        await stage.client.patch(Pod, alone.key, {"metadata": {"labels": {"app": "free"}}})

        async def is_free() -> bool:
            owned = [pod for pod in await stage.pods() if pod.metadata.controller is not None]
            return len(owned) == 1 and (await stage.client.get(Pod, alone.key)).metadata.controller is None

        await stage.until(is_free)


async def test_pods_that_their_node_rejects_again_and_again_are_made_at_growing_intervals(tmp_path: Path) -> None:
    rejected: dict[str, str] = {}  # by uid, the pod's owner
    async with stage_in(tmp_path) as stage:

        async def reject_all() -> None:
            failed = {"status": {"phase": "Failed", "reason": "VolumeAttachmentLimitExceeded", "message": "no slot"}}
            while True:
                for pod in await stage.pods():
                    if pod.spec.node_name and pod.uid not in rejected and not pod.metadata.is_terminating:
                        with suppress(NotFound, Conflict):
                            await stage.client.patch(Pod, pod.key, failed, subresource="status")
                            rejected[pod.uid] = owner_of(pod)
                await asyncio.sleep(0.02)

        def owner_of(pod: Pod) -> str:
            assert pod.metadata.controller is not None
            return pod.metadata.controller.kind

        stage.kubelet.runs_pods = False
        await stage.create("apps/v1", "ReplicaSet", "web", workload(1))
        await stage.create("apps/v1", "StatefulSet", "db", workload(1, serviceName="db"))
        rejecting = asyncio.create_task(reject_all())
        await asyncio.sleep(5.0)
        rejecting.cancel()
        # Made at 0 s, at once again, and 1, 2 and 4 s after the last; times of creation are whole seconds.
        made = Counter(rejected.values())
        there = Counter(owner_of(pod) for pod in await stage.pods())
        for kind in ("ReplicaSet", "StatefulSet"):
            assert 3 <= made[kind] <= 6, kind
            assert there[kind] <= 2, "one that waits, and the last one that was rejected"


async def test_a_stateful_set_keeps_names_and_claims_through_failure_update_and_scaling(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create("apps/v1", "StatefulSet", "db", workload(3, serviceName="db", volumeClaimTemplates=[CLAIM]))
        await stage.until_ready("db", 3)
        pods = await stage.pods()
        assert [pod.name for pod in pods] == ["db-0", "db-1", "db-2"]
        assert [pod.claim_names() for pod in pods] == [("data-db-0",), ("data-db-1",), ("data-db-2",)]
        assert pods[1].metadata.labels["apps.kubernetes.io/pod-index"] == "1"
        assert pods[1].spec.hostname == "db-1"
        claims = (await stage.client.list(PersistentVolumeClaim)).items
        assert {each.name: dict(each.metadata.labels) for each in claims} == {
            f"data-db-{n}": {"app": "web"} for n in range(3)
        }

        # KEP-4876: the kubelet fails a pod for which its node has no slot; another takes its name.
        failed = {"status": {"phase": "Failed", "reason": "VolumeAttachmentLimitExceeded", "message": "no slot"}}
        await stage.client.patch(Pod, "default/db-1", failed, subresource="status")

        async def is_replaced() -> bool:
            try:
                found = await stage.client.get(Pod, "default/db-1")
            except NotFound:
                return False
            return found.uid != pods[1].uid and found.status.phase == "Running"

        await stage.until(is_replaced)
        assert await stage.until(lambda: stage.notes("SuccessfulDelete")) == {
            "Delete Pod db-1 in StatefulSet db successful"
        }

        change = {"spec": {"template": template("app:2"), "updateStrategy": {"rollingUpdate": {"partition": 2}}}}
        await stage.client.patch(StatefulSet, "default/db", change)

        async def is_top_updated() -> bool:
            status = (await stage.client.get(StatefulSet, "default/db")).status
            return status.updated_replicas == 1 and status.ready_replicas == 3

        await stage.until(is_top_updated)
        images = [pod.spec.containers[0].image for pod in await stage.pods()]
        assert images == ["app:1", "app:1", "app:2"]
        await stage.client.patch(
            StatefulSet, "default/db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        )
        done = await stage.until_ready("db", 3)
        assert {pod.spec.containers[0].image for pod in await stage.pods()} == {"app:2"}
        revisions = (await stage.client.list(ControllerRevision)).items
        assert sorted(each.revision for each in revisions) == [1, 2]
        assert done.status.current_replicas == done.status.updated_replicas == 3

        policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
        scale = {"spec": {"replicas": 1, "persistentVolumeClaimRetentionPolicy": policy}}
        await stage.client.patch(StatefulSet, "default/db", scale)
        await stage.until_ready("db", 1)

        async def are_owned() -> bool:
            found = (await stage.client.list(PersistentVolumeClaim)).items
            owners = {each.name: [owner.kind for owner in each.metadata.owner_references] for each in found}
            return owners == {"data-db-0": ["StatefulSet"], "data-db-1": ["Pod"], "data-db-2": ["Pod"]}

        await stage.until(are_owned)


async def test_controllers_that_are_killed_at_any_point_leave_no_pod_too_many(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create("apps/v1", "ReplicaSet", "web", workload(12))
        spec = workload(4, app="db", podManagementPolicy="Parallel", serviceName="db", volumeClaimTemplates=[CLAIM])
        await stage.create("apps/v1", "StatefulSet", "db", spec)
        seen = stage.informers.of(Pod)
        most = 0

        def look(_: Pod) -> None:
            nonlocal most
            most = max(most, len(seen))

        seen.on_change(look)
        for made in (1, 5, 11):

            async def has_begun(made: int = made) -> bool:
                return len(seen) >= made

            await stage.until(has_begun)
            await stage.kill()
            await stage.start()

        async def is_whole() -> bool:
            return sum(pod.status.phase == "Running" for pod in await stage.pods()) == 16

        await stage.until(is_whole)
        assert most == 16  # 12 + 4, and never one more


async def test_a_budget_counts_what_may_go_and_evictions_keep_it(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create("apps/v1", "Deployment", "web", workload(3))
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        await stage.create("policy/v1", "PodDisruptionBudget", "web", spec)
        await stage.until_rolled_out("web")

        async def is_counted() -> PodDisruptionBudget | None:
            found = await stage.client.get(PodDisruptionBudget, "default/web")
            return found if found.status.disruptions_allowed == 1 else None

        budget: PodDisruptionBudget = await stage.until(is_counted)
        status = budget.status
        # 3 wanted by the Deployment, 1 may be missing: 3 - 1 = 2 must be well, 3 are, 3 - 2 = 1 may go.
        assert (status.expected_pods, status.desired_healthy, status.current_healthy) == (3, 2, 3)
        assert status.observed_generation == budget.metadata.generation == 1
        assert [(c.type, c.status, c.reason, c.observed_generation) for c in status.conditions] == [
            ("DisruptionAllowed", "True", "SufficientPods", 1)
        ]
        stage.kubelet.holds_back = lambda pod: pod.name not in {each.name for each in first}
        first = await stage.pods()
        await stage.client.evict(first[0].key)

        async def is_spent() -> bool:
            found = await stage.client.get(PodDisruptionBudget, "default/web")
            # The pod is gone and its note with it; its successor is there and not ready.
            return found.status.disruptions_allowed == 0 and not found.status.disrupted_pods

        await stage.until(is_spent)
        with pytest.raises(TooManyRequests):
            await stage.client.evict(first[1].key)
        stage.kubelet.holds_back = lambda _: False
        stage.kubelet.look_again()
        await stage.until(is_counted)

        # A pod that says for more than two minutes that it is about to be disrupted, and is not, takes it back.
        said = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        old = {"status": {"conditions": [{**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
        await stage.client.patch(Pod, first[2].key, old, patch_type="strategic", subresource="status")

        async def is_calm() -> bool:
            condition = (await stage.client.get(Pod, first[2].key)).condition("DisruptionTarget")
            return condition is not None and condition.status == "False"

        await stage.until(is_calm)


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
async def test_kubectl_rolls_out_scales_and_undoes(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create("apps/v1", "Deployment", "web", workload(2))
        await stage.create("apps/v1", "StatefulSet", "db", workload(2, app="db", serviceName="db"))
        both = [
            stage.kubectl("rollout", "status", "deployment/web", "--timeout=20s"),
            stage.kubectl("rollout", "status", "statefulset/db", "--timeout=20s"),
        ]
        told = await asyncio.gather(*both)
        assert told[0].endswith('deployment "web" successfully rolled out\n')
        assert told[1].splitlines()[-1].startswith("partitioned roll out complete") or told[1].splitlines()[
            -1
        ].startswith("statefulset rolling update complete 2 pods at revision db-")
        await asyncio.gather(
            stage.kubectl("set", "image", "deployment/web", "c=app:2"),
            stage.kubectl("set", "image", "statefulset/db", "c=app:2"),
        )
        await stage.until_rolled_out("web")
        await stage.until_ready("db", 2)
        assert {pod.spec.containers[0].image for pod in await stage.pods()} == {"app:2"}
        await asyncio.gather(
            stage.kubectl("rollout", "undo", "deployment/web"),
            stage.kubectl("rollout", "undo", "statefulset/db"),
            stage.kubectl("scale", "deployment/web", "--replicas=3"),
        )
        found = await stage.until_rolled_out("web")
        assert found.spec.replicas == 3
        assert found.metadata.annotations["deployment.kubernetes.io/revision"] == "3"
        await stage.until_ready("db", 2)
        assert {pod.spec.containers[0].image for pod in await stage.pods()} == {"app:1"}
        history = await stage.kubectl("rollout", "history", "deployment/web")
        assert [line.split()[0] for line in history.splitlines()[2:4]] == ["2", "3"]
