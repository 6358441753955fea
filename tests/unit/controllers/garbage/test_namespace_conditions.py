"""What a namespace says while it is emptied, in upstream's words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tonnage.controllers.namespaces import Remains, conditions_after
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL

PODS, DEPLOYMENTS = BY_PLURAL["", "pods"], BY_PLURAL["apps", "deployments"]
START = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
AT_0, AT_9 = "2026-11-15T12:00:00Z", "2026-11-15T12:00:09Z"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def condition(type_: str, status: str, reason: str, message: str, since: str = AT_0) -> Doc:
    return {"type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


ALL_IS_WELL = [
    condition(
        "NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"
    ),
    condition(
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    condition(
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    condition("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed"),
    condition(
        "NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"
    ),
]


def test_an_empty_namespace_says_five_times_that_all_is_well() -> None:
    remains = Remains()
    assert (remains.are_none, conditions_after([], remains, at(0))) == (True, ALL_IS_WELL)


def test_nothing_is_written_when_nothing_has_changed() -> None:
    assert conditions_after(ALL_IS_WELL, Remains(), at(9)) is None


def test_what_remains_is_counted_by_kind_and_by_finalizer() -> None:
    remains = Remains()
    remains.add(PODS, [("example.com/a", "example.com/b"), ("example.com/a",)])
    remains.add(DEPLOYMENTS, [()])
    assert not remains.are_none
    assert conditions_after(ALL_IS_WELL, remains, at(9)) == [
        *ALL_IS_WELL[:3],
        condition(
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances",
            AT_9,
        ),
        condition(
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: "
            "example.com/a in 2 resource instances, example.com/b in 1 resource instances",
            AT_9,
        ),
    ]


def test_a_count_that_changes_is_written_without_a_new_time() -> None:
    two, one = Remains(), Remains()
    two.add(PODS, [(), ()])
    one.add(PODS, [()])
    before = conditions_after([], two, at(0))
    after = conditions_after(before or (), one, at(9)) or []
    told = "Some resources are remaining: pods. has 1 resource instances"
    assert after[3] == condition("NamespaceContentRemaining", "True", "SomeResourcesRemain", told)


def test_failures_are_told_in_order_and_conditions_of_others_stay() -> None:
    others = condition("Somebody", "True", "Else", "wrote this")
    remains = Remains(failures=["b: no", "a: no"], discovery_failure="the server is unwell")
    written = conditions_after([others], remains, at(0)) or []
    told = {each["type"]: (each["reason"], each["message"]) for each in written if each["status"] == "True"}
    assert told == {
        "Somebody": ("Else", "wrote this"),
        "NamespaceDeletionDiscoveryFailure": ("DiscoveryFailed", "the server is unwell"),
        "NamespaceDeletionContentFailure": (
            "ContentDeletionFailed",
            "Failed to delete all resource types, 2 remaining: a: no, b: no",
        ),
    }
