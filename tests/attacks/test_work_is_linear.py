"""Work grows with what is sent, and not with its square: merges, ownership, defaults, validation, warnings, tables.

What is measured is the processor's time of this thread, so a busy machine makes no difference. The named attacks have a
bound each that their quadratic form missed tenfold; the sweep over every list and map of every kind compares a list
with one four times as long.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from large_documents import Path, document, long_fields

from support.virtual_clock import VirtualClock
from tonnage.apiserver.bodies import read_object
from tonnage.apiserver.requests import Call, Location
from tonnage.apiserver.tables import table
from tonnage.apiserver.verbs.writing import merge_owners
from tonnage.documents.admission import Admission
from tonnage.documents.admit import admit
from tonnage.documents.apply.managed_fields import FieldWrite
from tonnage.documents.apply.server_side_apply import apply
from tonnage.documents.creation import Creator, NameGenerator, prepare_update, track_managed_fields
from tonnage.documents.patches.strategic_merge import strategic_merge
from tonnage.documents.schema import ListOf, MapOf, schema_of_resource
from tonnage.documents.validation.metadata import validate_object_meta_update
from tonnage.errors import ApiError, Conflict, Forbidden, Invalid, TonnageError
from tonnage.gates import Gates
from tonnage.objects import field_errors
from tonnage.objects.document import Doc, copy, encode
from tonnage.objects.resources import BY_KIND, BY_PLURAL, Resource

NOW = "2030-01-01T00:00:00Z"
PODS = BY_PLURAL["", "pods"]
NODES = BY_PLURAL["", "nodes"]
CLAIMS = BY_PLURAL["", "persistentvolumeclaims"]
BOUND_S = 4.0
"""For ten thousand elements; the quadratic forms took 7 to 60 seconds on the same machine."""


class Nothing:
    """No other objects, for admission."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Doc | None:
        return None

    def list(self, resource: Resource, namespace: str = "") -> Iterator[Doc]:
        return iter(())


def creator(lister: Any = None) -> Creator:
    return Creator(
        gates=Gates(),
        clock=VirtualClock(),
        names=NameGenerator(random.Random(1)),
        admission=Admission(lister or Nothing(), is_whole=False),
    )


CREATOR = creator()


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of one call; a refusal counts as an answer.

    Rules that only ever see legal objects meet illegal ones here, and may end in a ValueError or a KeyError.
    """
    started_at = time.thread_time()
    with contextlib.suppress(TonnageError, ValueError, KeyError):
        work()
    return time.thread_time() - started_at


def admitted(resource: Resource, doc: Doc) -> Doc:
    admit(schema_of_resource(resource), doc)
    return doc


def pod_with(path: str, count: int, *, changed: bool = False) -> Doc:
    return document(PODS, tuple(path.split(".")), count, changed=changed)


# -- the named ones ----------------------------------------------------------------------------------------------------


def at_list(doc: Doc, path: Path) -> tuple[Doc, str]:
    """The map that has the list, and its name there."""
    place: Any = doc
    for step in path[:-1]:
        place = place[0] if step == "[]" else place["n0"] if step == "{}" else place[step]
    return place, path[-1]


def in_order(doc: Doc, path: Path, key: str) -> Doc:
    """A patch with `$setElementOrder` beside the list."""
    patch: Doc = copy(doc)
    place, name = at_list(patch, path)
    place[f"$setElementOrder/{name}"] = [{key: item.get(key)} for item in place[name]] if key else list(place[name])
    return patch


def deleting(doc: Doc, path: Path, key: str) -> Doc:
    """A patch that deletes every item of the list."""
    patch: Doc = copy(doc)
    place, name = at_list(patch, path)
    if key:
        place[name] = [{key: item.get(key), "$patch": "delete"} for item in place[name]]
    else:
        place[f"$deleteFromPrimitiveList/{name}"] = place.pop(name)
    return patch


@pytest.mark.parametrize("how", ["merge", "order", "delete"])
def test_a_strategic_patch_of_ten_thousand_variables(how: str) -> None:
    path: Path = ("spec", "containers", "[]", "env")
    old, new = (document(PODS, path, 10_000, changed=changed) for changed in (False, True))
    patch = {"merge": new, "order": in_order(new, path, "name"), "delete": deleting(new, path, "name")}[how]
    assert seconds(lambda: strategic_merge(schema_of_resource(PODS), old, patch)) < BOUND_S


def test_twenty_thousand_owners() -> None:
    doc = admitted(PODS, pod_with("metadata.ownerReferences", 20_000))
    assert seconds(lambda: CREATOR.create(PODS, doc, manager="m")) < BOUND_S


def test_twenty_thousand_owners_that_are_one() -> None:
    doc = pod_with("metadata.ownerReferences", 1)
    doc["metadata"]["ownerReferences"] *= 20_000
    call = Call("create", Location(PODS, "default"), {})
    assert seconds(lambda: merge_owners(call, doc)) < BOUND_S
    assert len(doc["metadata"]["ownerReferences"]) == 1


def test_ten_thousand_spread_constraints() -> None:
    doc = admitted(PODS, pod_with("spec.topologySpreadConstraints", 10_000))
    assert seconds(lambda: CREATOR.create(PODS, doc, manager="m")) < BOUND_S


def test_ten_thousand_tolerations_of_a_pod_that_changes() -> None:
    old, new = (admitted(PODS, pod_with("spec.tolerations", 10_000, changed=changed)) for changed in (False, True))
    assert seconds(lambda: CREATOR.strategy(PODS).validate_update(new, old)) < BOUND_S


def test_a_pod_that_may_not_change_changes_in_ten_thousand_places() -> None:
    """The refusal shows a diff, and a diff takes time by the square of its lines."""
    old, new = (
        admitted(PODS, pod_with("spec.containers.[].env", 10_000, changed=changed)) for changed in (False, True)
    )
    errors: list[field_errors.FieldError] = []
    assert seconds(lambda: errors.extend(CREATOR.strategy(PODS).validate_update(new, old))) < BOUND_S
    told = errors[-1].detail
    assert "@@ -" in told and told.endswith(" more lines\n")


def test_mounts_and_devices_that_are_looked_up_among_each_other() -> None:
    doc = pod_with("spec.containers.[].volumeMounts", 8_000)
    doc["spec"]["containers"][0]["volumeDevices"] = [{"name": f"d{i}", "devicePath": f"/d{i}"} for i in range(8_000)]
    assert seconds(lambda: CREATOR.create(PODS, admitted(PODS, doc), manager="m")) < BOUND_S


@pytest.mark.parametrize("host_port", [0, 1])
def test_ports_of_which_each_clashes_with_each(host_port: int) -> None:
    ports = [{"containerPort": 80, "protocol": "TCP", "hostPort": host_port * (i + 1)} for i in range(10_000)]
    doc = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "ports": ports}]}}
    told: list[str] = []
    assert seconds(lambda: told.extend(CREATOR.strategy(PODS).warnings(doc, None))) < BOUND_S
    assert len(told) == (0 if host_port else 100)


def test_ten_thousand_managers_who_own_a_field_each() -> None:
    """Every write takes what it changes from every owner, and folds all but ten of those who update."""
    count = 8_000
    doc = pod_with("metadata.labels", count)
    doc["metadata"]["managedFields"] = [
        {
            "manager": f"m{i}",
            "operation": "Apply" if i % 2 else "Update",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {f"f:n{i}": {}}}},
        }
        for i in range(count)
    ]
    changed = copy(doc)
    changed["metadata"]["labels"] = dict.fromkeys(doc["metadata"]["labels"], "changed")
    del changed["metadata"]["managedFields"]

    def update() -> None:
        track_managed_fields(PODS, old=doc, new=copy(changed), manager="m", now=NOW)

    assert seconds(update) < BOUND_S
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": changed["metadata"]["labels"]}}
    # A manager of long standing, so that what it applied before is pruned, and one that conflicts with all others.
    for manager, force in (("m1", True), ("m1", False)):
        work = lambda manager=manager, force=force: apply(  # noqa: E731
            FieldWrite(schema_of_resource(PODS), manager=manager, api_version="v1", now=NOW),
            live=doc,
            config=config,
            force=force,
        )
        assert seconds(work) < BOUND_S


# -- what is told is bounded -------------------------------------------------------------------------------------------


def test_ten_thousand_errors_are_told_in_part_and_counted() -> None:
    doc = pod_with("spec.containers.[].env", 10_000)
    for variable in doc["spec"]["containers"][0]["env"]:
        variable["name"] = "not a name="
    with pytest.raises(Invalid) as refused:
        CREATOR.create(PODS, admitted(PODS, doc), manager="m")
    assert len(refused.value.causes) == field_errors.MAX_ERRORS_TOLD
    # Three rules more are broken by the container itself.
    more = 10_003 - field_errors.MAX_ERRORS_TOLD
    assert refused.value.message.endswith(f"and {more} more errors]")


def test_an_error_that_shows_the_whole_list_for_each_of_its_items() -> None:
    doc = pod_with("metadata.ownerReferences", 10_000)
    for owner in doc["metadata"]["ownerReferences"]:
        owner["controller"] = True
    with pytest.raises(Invalid) as refused:
        CREATOR.create(PODS, admitted(PODS, doc), manager="m")
    assert len(encode(refused.value.message)) < 2 * field_errors.MAX_TOLD_BYTES
    assert sum(len(cause.message) for cause in refused.value.causes) < 2 * field_errors.MAX_TOLD_BYTES


def test_a_manager_of_a_megabyte_of_control_characters() -> None:
    doc = pod_with("metadata.labels", 1)
    doc["metadata"]["managedFields"] = [{"manager": "\x01" * 300_000, "operation": "Update"}]
    assert seconds(lambda: validate_object_meta_update(doc, doc)) < BOUND_S


def test_a_name_of_a_megabyte_with_ten_thousand_fields_below_it() -> None:
    """Conflicts and misfits name the path of each field, the megabyte included."""
    env = [{"name": f"n{i}", "value": "1"} for i in range(10_000)]
    containers = [{"name": "x" * 1_000_000, "image": "i", "env": env}]
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers}}
    struct = schema_of_resource(PODS)
    live = apply(FieldWrite(struct, manager="a", api_version="v1", now=NOW), live=None, config=config)
    other = copy(config)
    for variable in other["spec"]["containers"][0]["env"]:
        variable["value"] = "2"
    with pytest.raises(Conflict) as refused:
        apply(FieldWrite(struct, manager="b", api_version="v1", now=NOW), live=live, config=other)
    assert "Apply failed with 10000 conflicts" in refused.value.message
    assert len(refused.value.message) < 3_000_000
    for variable in other["spec"]["containers"][0]["env"]:
        variable["unknown"] = "2"
    with pytest.raises(ApiError) as refused_again:
        apply(FieldWrite(struct, manager="b", api_version="v1", now=NOW), live=live, config=other)
    assert len(refused_again.value.message) < 3_000_000


def test_a_key_of_a_megabyte_with_fields_that_come_twice_below_it() -> None:
    below = b",".join(b'"f:n%d":{},"f:n%d":{}' % (i, i) for i in range(20_000))
    entry = b'{"manager":"m","operation":"Update","fieldsV1":{"f:%s":{%s}}}' % (b"x" * 1_000_000, below)
    body = b'{"metadata":{"name":"x","managedFields":[%s]},"unknown":1}' % entry
    warnings: list[str] = []
    assert seconds(lambda: read_object(body, "application/json", PODS, "Warn", warnings)) < BOUND_S
    assert sum(map(len, warnings)) < 20_000_000


def test_the_defaults_of_a_limit_range_do_not_multiply_with_containers() -> None:
    amounts = {f"example.com/r{i}": "1" for i in range(10_000)}
    limits = {"limits": [{"type": "Container", "default": amounts, "min": {"cpu": "1"}}]}

    class WithLimits(Nothing):
        def list(self, resource: Resource, namespace: str = "") -> Iterator[Doc]:
            return iter([{"metadata": {"name": "l"}, "spec": limits}] if resource.kind == "LimitRange" else [])

    doc = pod_with("spec.containers", 3_000)
    with pytest.raises(Forbidden, match="30000000 amounts, of at most 2000"):
        creator(WithLimits()).create(PODS, admitted(PODS, doc), manager="m")


# -- all lists and maps of all kinds -----------------------------------------------------------------------------------

FEW = 300
MANY = 4 * FEW
_TEMPLATES = ("ReplicationController", "ReplicaSet", "DaemonSet", "StatefulSet", "PodTemplate")


def works(resource: Resource, path: Path, kind: ListOf | MapOf, count: int) -> dict[str, Callable[[], object]]:
    """What a server does with an object, step by step, each as something to call."""
    struct, strategy = schema_of_resource(resource), CREATOR.strategy(resource)
    sent, other = (document(resource, path, count, changed=changed) for changed in (False, True))
    old, new = admitted(resource, copy(sent)), admitted(resource, copy(other))

    def update() -> None:
        after, before = copy(new), copy(old)
        strategy.default(after)
        strategy.default(before)
        prepare_update(resource, after, before, may_overwrite=True, is_put=True)
        strategy.drop_disabled_fields(after, before)
        strategy.prepare_update(after, before)
        track_managed_fields(resource, old=before, new=after, manager="a", now=NOW)
        strategy.spec_changed(after, before)
        raise field_errors.invalid_object("", resource.kind, "x", strategy.validate_update(after, before))

    def update_status() -> None:
        after, before = copy(new), copy(old)
        strategy.default(after)
        strategy.default(before)
        strategy.prepare_status(after, before)
        raise field_errors.invalid_object("", resource.kind, "x", strategy.validate_status(after, before))

    def applied() -> None:
        configs = [copy(sent), copy(other)]
        for config in configs:
            for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
                config["metadata"].pop(field, None)
        live: Doc | None = None
        nothing = {**configs[0], "spec": {}, "status": {}, "metadata": {"name": "x"}}
        for config, manager in ((configs[0], "a"), (configs[1], "b"), (nothing, "b")):
            live = apply(
                FieldWrite(struct, manager=manager, api_version=resource.api_version, now=NOW),
                live=live,
                config=config,
                force=True,
            )

    steps: dict[str, Callable[[], object]] = {
        "admit": lambda: admit(struct, copy(sent)),
        "create": lambda: CREATOR.create(resource, copy(old), manager="m"),
        "update": update,
        "status": update_status,
        "warnings": lambda: strategy.warnings(copy(new), None),
        "patch": lambda: strategic_merge(struct, old, new),
        "apply": applied,
        "table": lambda: table(resource, [copy(new)], now=VirtualClock().now(), list_metadata={}, api_version="v1"),
    }
    if isinstance(kind, ListOf) and kind.patch_merge:
        steps["order"] = lambda: strategic_merge(struct, old, in_order(new, path, kind.merge_key))
        steps["delete"] = lambda: strategic_merge(struct, old, deleting(new, path, kind.merge_key))
    return steps


def is_quadratic(few: Callable[[], object], many: Callable[[], object]) -> bool:
    """Does four times as much take more than eight times as long? Tried anew before it is believed."""
    for _ in range(3):
        short_s, long_s = seconds(few), seconds(many)
        if long_s < 0.01 or long_s < 8 * short_s:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("resource", list(BY_KIND.values()), ids=lambda resource: resource.kind)
def test_every_list_and_map_of_every_kind(resource: Resource) -> None:
    found = []
    for path, kind in long_fields(schema_of_resource(resource)):
        if path[0] == "metadata" and resource is not PODS:  # the same for all kinds
            continue
        if resource.kind in _TEMPLATES and "template" in path:  # as in Deployment
            continue
        few, many = (works(resource, path, kind, count) for count in (FEW, MANY))
        found += [f"{'.'.join(path)}: {step}" for step in few if is_quadratic(few[step], many[step])]
    assert found == []
