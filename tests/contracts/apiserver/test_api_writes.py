"""PUT and what holds for every write: optimistic locks, no-ops, dry runs, strictness, and status kept apart."""

from __future__ import annotations

import pytest
from contract_documents import config_map, owners_of, pod

from support.api_servers import ServerApi

STALE = "the object has been modified; please apply your changes to the latest version and try again"
ELSE = "11111111-1111-4111-8111-111111111111"


def test_a_put_replaces_the_object(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", {"k": "v"}, labels={"a": "b"}))
    put = api.put(f"{maps}/a", config_map("a", {"x": "y"}))
    assert (put.code, put["data"]) == (200, {"x": "y"})
    assert "labels" not in put.meta
    assert put.meta["uid"] == made.meta["uid"] and put.meta["creationTimestamp"] == made.meta["creationTimestamp"]
    assert int(put.version) > int(made.version)


def test_a_put_that_changes_nothing_keeps_the_version_and_sends_no_event(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", {"k": "v"}))
    put = api.put(f"{maps}/a", made.body)
    assert (put.code, put.version) == (200, made.version)
    api.put(f"{maps}/a", config_map("a", {"k": "w"}))
    [event] = api.watch(f"{maps}?watch=1&resourceVersion={made.version}", 1)
    assert event.object["data"] == {"k": "w"}  # the first there is


def test_a_put_with_an_old_version_is_a_conflict(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", {"k": "v"}))
    api.put(f"{maps}/a", config_map("a", {"k": "w"}))
    refused = api.put(f"{maps}/a", made.body)
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == f'Operation cannot be fulfilled on configmaps "a": {STALE}'
    assert refused["details"] == {"name": "a", "kind": "configmaps"}


@pytest.mark.parametrize("version", ["", "0"])
def test_a_put_without_a_version_overwrites(api: ServerApi, maps: str, version: str) -> None:
    api.create(maps, config_map("a", {"k": "v"}))
    assert api.put(f"{maps}/a", config_map("a", {"k": "w"}, resourceVersion=version)).code == 200


def test_a_version_that_is_no_number_is_a_fault(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a"))
    refused = api.put(f"{maps}/a", config_map("a", {"k": "w"}, resourceVersion="abc"))
    assert (refused.code, refused.reason) == (500, "")
    assert refused.message == 'strconv.ParseUint: parsing "abc": invalid syntax'


@pytest.mark.parametrize(
    ("plural", "kind", "body"),
    [
        ("csinodes", "CSINode", {"spec": {"drivers": []}}),
        ("csidrivers", "CSIDriver", {"spec": {}}),
        (
            "volumeattachments",
            "VolumeAttachment",
            {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}},
        ),
    ],
)
def test_some_kinds_may_not_be_overwritten_unseen(
    api: ServerApi, ns: str, plural: str, kind: str, body: object
) -> None:
    path = f"/apis/storage.k8s.io/v1/{plural}"
    doc = {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": ns}, **dict(body)}  # type: ignore[call-overload]  # a literal above
    api.create(path, doc)
    refused = api.put(f"{path}/{ns}", doc)
    assert refused.code == 422
    assert refused.message == (
        f'{plural}.storage.k8s.io "{ns}" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )


def test_a_put_that_means_another_uid_is_a_conflict(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a"))
    refused = api.put(f"{maps}/a", config_map("a", uid=ELSE))
    assert refused.code == 409
    assert refused.message.startswith(
        'Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, Key: /registry/'
    )
    told = f"Precondition failed: UID in precondition: {ELSE}, UID in object meta: {made.meta['uid']}"
    assert refused.message.endswith(f", ResourceVersion: 0, AdditionalErrorMsg: {told}")


def test_body_and_url_must_name_the_same_object(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a"))
    refused = api.put(f"{maps}/a", config_map("b"))
    assert (refused.code, refused.message) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )
    assert api.put(f"{maps}/a", {"data": {}}).message == (
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    )
    assert api.put(f"{maps}/a", config_map("a", namespace="other")).message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def test_creation_time_and_generation_are_not_a_clients_to_change(api: ServerApi, pods: str) -> None:
    made = api.create(pods, pod("a"))
    said = {**made.meta, "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9, "selfLink": "x"}
    put = api.put(f"{pods}/a", {**made.body, "metadata": said})
    assert (put.code, put.version) == (200, made.version)
    assert put.meta["creationTimestamp"] == made.meta["creationTimestamp"] and put.meta["generation"] == 1


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("deletionTimestamp", "2020-01-01T00:00:00Z", '"2020-01-01T00:00:00Z"'),
        ("deletionGracePeriodSeconds", 5, "5"),
    ],
)
def test_nobody_deletes_by_writing_the_marks_of_deletion(
    api: ServerApi, maps: str, field: str, value: object, told: str
) -> None:
    api.create(maps, config_map("a"))
    refused = api.patch(f"{maps}/a", {"metadata": {field: value}})
    assert refused.code == 422
    assert refused.causes == [(f"metadata.{field}", f"Invalid value: {told}: field is immutable")]


def test_a_put_to_nothing_is_not_found(api: ServerApi, maps: str) -> None:
    refused = api.put(f"{maps}/a", config_map("a"))
    assert (refused.code, refused.reason, refused.message) == (404, "NotFound", 'configmaps "a" not found')


def test_a_put_creates_a_lease(api: ServerApi, ns: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    assert api.put(f"{path}/m?dryRun=All", {**lease, "metadata": {"name": "m"}}).code == 201
    assert api.get(f"{path}/m").code == 404
    made = api.put(f"{path}/l", {**lease, "metadata": {"name": "l", "resourceVersion": "5"}})
    assert made.code == 201
    # Once it is there, leadership is taken under its version only.
    assert api.put(f"{path}/l", lease).code == 422
    assert api.put(f"{path}/l", {**made.body, "spec": {"holderIdentity": "b"}}).code == 200
    assert api.put(f"{path}/l", {**made.body, "spec": {"holderIdentity": "c"}}).code == 409


def test_a_time_of_microseconds_has_six_digits(api: ServerApi, ns: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
    refused = api.post(path, {"metadata": {"name": "l"}, "spec": {"renewTime": "2020-01-01T00:00:00.5Z"}})
    assert (refused.code, refused.message) == (
        400,
        'Lease in version "v1" cannot be handled as a Lease: parsing time "2020-01-01T00:00:00.5Z" as '
        '"2006-01-02T15:04:05.000000Z07:00": cannot parse ".5Z" as ".000000"',
    )
    made = api.create(path, {"metadata": {"name": "l"}, "spec": {"renewTime": "2020-01-01T02:00:00.500000+02:00"}})
    assert made["spec"]["renewTime"] == "2020-01-01T00:00:00.500000Z"


def test_a_dry_run_answers_and_leaves_nothing(api: ServerApi, maps: str) -> None:
    made = api.post(f"{maps}?dryRun=All", config_map("a", {"k": "v"}))
    assert made.code == 201 and made.meta["uid"] and "resourceVersion" not in made.meta
    assert api.get(f"{maps}/a").code == 404
    api.create(maps, config_map("a", {"k": "v"}))
    assert api.post(f"{maps}?dryRun=All", config_map("a")).code == 409
    assert api.put(f"{maps}/a?dryRun=All", config_map("a", {"k": "w"}))["data"] == {"k": "w"}
    assert api.patch(f"{maps}/a?dryRun=All", {"data": {"z": "z"}})["data"] == {"k": "v", "z": "z"}
    assert api.apply(f"{maps}/b", config_map("b", {"k": "v"}), query="&dryRun=All").code == 201
    assert api.delete(f"{maps}/a?dryRun=All").code == 200
    assert api.delete(f"{maps}?dryRun=All").names == ["a"]
    assert api.get(maps).names == ["a"] and api.get(f"{maps}/a")["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("method", "options"), [("POST", "Create"), ("PUT", "Update"), ("PATCH", "Patch"), ("DELETE", "Delete")]
)
def test_a_dry_run_is_all_or_nothing(api: ServerApi, maps: str, method: str, options: str) -> None:
    api.create(maps, config_map("a"))
    path = maps if method == "POST" else f"{maps}/a"
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    body = None if method == "DELETE" else config_map("a")
    refused = api.request(method, f"{path}?dryRun=Some", body, content_type=media)
    assert (refused.code, refused.message) == (
        422,
        f'{options}Options.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    )
    both = api.request(method, f"{path}?dryRun=All&dryRun=x", body, content_type=media)
    assert both.causes == [("dryRun", 'Unsupported value: ["All","x"]: supported values: "All"')]
    none = api.request(method, f"{path}?dryRun=", body, content_type=media)
    assert none.causes == [("dryRun", 'Unsupported value: [""]: supported values: "All"')]


def test_unknown_fields_are_refused_warned_about_or_passed_over(api: ServerApi, pods: str) -> None:
    doc = {**pod("a", bogus=1), "extra": 2}
    refused = api.post(f"{pods}?fieldValidation=Strict", doc)
    assert refused.code == 400
    assert refused.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.bogus", unknown field "extra"'
    )
    warned = ['unknown field "spec.bogus"', 'unknown field "extra"']
    assert api.post(f"{pods}?fieldValidation=Warn&dryRun=All", doc).warnings == warned
    assert api.post(f"{pods}?dryRun=All", doc).warnings == warned
    ignored = api.post(f"{pods}?fieldValidation=Ignore", doc)
    assert (ignored.code, ignored.warnings) == (201, [])
    assert "extra" not in ignored.body and "bogus" not in ignored["spec"]


def test_a_field_given_twice_counts_the_last_time(api: ServerApi, maps: str) -> None:
    text = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","k":"w"}}'
    refused = api.post(f"{maps}?fieldValidation=Strict", text)
    assert (refused.code, refused.message) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field "data.k"',
    )
    made = api.post(maps, text)
    assert (made["data"], made.warnings) == ({"k": "w"}, ['duplicate field "data.k"'])


def test_warnings_come_with_refusals_too(api: ServerApi, pods: str) -> None:
    refused = api.post(pods, {**pod("A_b"), "extra": 2})
    assert (refused.code, refused.warnings) == (422, ['unknown field "extra"'])


def test_the_word_for_strictness_is_one_of_three(api: ServerApi, maps: str) -> None:
    assert api.post(f"{maps}?fieldValidation=Bogus", config_map("a")).causes == [
        ("fieldValidation", 'Unsupported value: "Bogus": supported values: "", "Ignore", "Strict", "Warn"')
    ]


def test_a_manager_has_a_printable_name_of_at_most_128_bytes(api: ServerApi, maps: str) -> None:
    long = api.post(f"{maps}?fieldManager={'x' * 129}", config_map("a"))
    assert (long.code, long.causes) == (422, [("fieldManager", "Too long: may not be more than 128 bytes")])
    odd = api.post(f"{maps}?fieldManager=a%0Ab", config_map("a"))
    assert odd.causes == [("fieldManager", 'Invalid value: "a\\nb": invalid character U+000A (at position 1)')]


def test_status_is_not_written_with_the_object(api: ServerApi, pods: str) -> None:
    made = api.create(pods, {**pod("a"), "status": {"phase": "Running", "podIP": "1.2.3.4"}})
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    patched = api.patch(f"{pods}/a", {"status": {"phase": "Running"}})
    assert (patched.version, patched["status"]["phase"]) == (made.version, "Pending")


def test_the_object_is_not_written_with_its_status(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    said = {"spec": {"activeDeadlineSeconds": 3}, "status": {"phase": "Running", "hostIP": "1.2.3.5"}}
    patched = api.patch(f"{pods}/a/status", {**said, "metadata": {"labels": {"via": "status"}}})
    assert patched["status"]["phase"] == "Running"
    assert "activeDeadlineSeconds" not in patched["spec"]
    assert patched.meta["labels"] == {"via": "status"}  # a pod's labels do go through its status
    assert owners_of(patched.body) == [("contract", "Update", ""), ("contract", "Update", "status")]
    put = api.put(f"{pods}/a/status", {**patched.body, "status": {"phase": "Succeeded"}})
    assert (put.code, put["status"]["phase"]) == (200, "Succeeded")
    assert api.get(f"{pods}/a/status").body == api.get(f"{pods}/a").body == put.body


def test_a_status_put_without_a_status_empties_it(api: ServerApi, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    doc = {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    api.create(path, doc)
    api.patch(f"{path}/a/status", {"status": {"replicas": 3, "readyReplicas": 1}})
    # What upstream's type always writes is there all the same.
    assert api.put(f"{path}/a/status", doc)["status"] == {"replicas": 0}


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        (
            "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims",
            {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattachments",
            {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}},
        ),
    ],
)
def test_of_some_kinds_not_even_metadata_goes_through_the_status(
    api: ServerApi, ns: str, path: str, spec: object
) -> None:
    path = path.format(ns=ns)
    made = api.create(path, {"metadata": {"name": ns, "labels": {"a": "b"}}, "spec": spec})
    patched = api.patch(f"{path}/{ns}/status", {"metadata": {"labels": {"a": "c"}, "annotations": {"x": "y"}}})
    assert (patched.code, patched.version, patched.meta["labels"]) == (200, made.version, {"a": "b"})


def test_a_status_is_neither_created_nor_deleted(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    assert api.post(f"{pods}/a/status", pod("a")).code == 405
    assert api.delete(f"{pods}/a/status").code == 405
    assert api.patch(f"{pods}/b/status", {}).message == 'pods "b" not found'
