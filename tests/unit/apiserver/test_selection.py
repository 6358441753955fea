"""Selectors over stored records: a selector that leaves one name asks the key first, and says the same."""

from __future__ import annotations

import pytest

from support.virtual_clock import VirtualClock
from tonnage.apiserver.requests import Call, Location, list_options
from tonnage.apiserver.stored_documents import index_for, matcher
from tonnage.documents.creation import strategies
from tonnage.gates import Gates
from tonnage.objects.document import encode
from tonnage.objects.resources import BY_PLURAL
from tonnage.store.records import StoreRecord

PODS = BY_PLURAL["", "pods"]
GATES, CLOCK = Gates(), VirtualClock()
INDEX = index_for(GATES, CLOCK)


def record(namespace: str, name: str, node: str, app: str) -> StoreRecord:
    document = encode(
        {"metadata": {"name": name, "namespace": namespace, "labels": {"app": app}}, "spec": {"nodeName": node}}
    )
    key = PODS.key(namespace, name)
    return StoreRecord(key, 1, document, INDEX(key, document))


RECORDS = [
    record(namespace, name, node, app)
    for namespace in ("a", "b")
    for name in ("db", "my-db", "db-0", "db.x")
    for node in ("n1", "")
    for app in ("web", "db")
]


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ("metadata.name=db", ""),
        ("metadata.name=db", "app=web"),
        ("metadata.name==db,spec.nodeName=n1", ""),
        ("metadata.name=db,metadata.namespace=b", ""),
        ("metadata.name=db,metadata.name=my-db", ""),
        ("metadata.name=db,metadata.name!=db", ""),
        ("metadata.name!=db", ""),
        ("metadata.name=", ""),
        ("spec.nodeName=", "app!=db"),
    ],
)
def test_a_selector_of_one_name_chooses_what_its_terms_say(fields: str, labels: str) -> None:
    options = list_options({"fieldSelector": fields, "labelSelector": labels}, watch=False)
    matches = matcher(strategies(GATES, CLOCK)["", "pods"], Call("list", Location(PODS), {}), options)
    twin = [
        (options.labels is None or options.labels.matches(each.attributes.labels))
        and (options.fields is None or options.fields.matcher.matches(each.attributes.fields))
        for each in RECORDS
    ]
    assert [matches(each) for each in RECORDS] == twin


def test_documents_of_other_names_are_not_read() -> None:
    options = list_options({"fieldSelector": "metadata.name=db"}, watch=False)
    matches = matcher(strategies(GATES, CLOCK)["", "pods"], Call("list", Location(PODS), {}), options)
    assert not matches(StoreRecord(PODS.key("a", "other"), 1, b"no JSON", INDEX("pods/a/other", b"no JSON")))
