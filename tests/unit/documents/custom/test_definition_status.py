"""Accepted names, conditions and stored versions of definitions."""

from __future__ import annotations

from typing import Any

from support.definition_builders import definition
from tonnage.documents.custom.definition_rules import (
    accept_names,
    condition,
    establish,
    is_established,
    record_stored_version,
)
from tonnage.objects.document import Doc

T1, T2 = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def named(plural: str, kind: str, **names: Any) -> Doc:
    made = definition()
    made["spec"]["names"] = {
        "plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List", **names,
    }  # fmt: skip
    return made


def told(made: Doc, kind: str) -> tuple[str, str, str]:
    found = condition(made, kind) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def test_free_names_are_accepted_and_then_the_definition_is_established() -> None:
    made = named("widgets", "Widget", shortNames=["wd"], categories=["all"])
    assert accept_names(made, [], T1)
    assert made["status"]["acceptedNames"] == made["spec"]["names"]
    assert told(made, "NamesAccepted") == ("True", "NoConflicts", "no conflicts found")
    assert told(made, "Established") == ("False", "Installing", "the initial names have been accepted")
    assert establish(made, T2)
    assert told(made, "Established") == ("True", "InitialNamesAccepted", "the initial names have been accepted")
    assert [each["lastTransitionTime"] for each in made["status"]["conditions"]] == [T1, T2]
    assert not accept_names(made, [made], T2)
    assert not establish(made, T2)


def test_names_of_another_definition_of_the_group_are_taken() -> None:
    first = named("widgets", "Widget", shortNames=["wd"])
    accept_names(first, [], T1)
    second = named("gadgets", "Widget", shortNames=["wd"], singular="gadget")
    accept_names(second, [first], T1)
    assert told(second, "NamesAccepted") == ("False", "ListKindConflict", '"WidgetList" is already in use')
    assert told(second, "Established") == ("False", "NotAccepted", "not all names are accepted")
    assert second["status"]["acceptedNames"] == {"kind": "", "plural": "gadgets", "singular": "gadget"}
    assert not establish(second, T2)


def test_another_group_is_another_world() -> None:
    first = named("widgets", "Widget")
    accept_names(first, [], T1)
    second = named("widgets", "Widget")
    second["spec"]["group"] = "other.com"
    accept_names(second, [first], T1)
    assert told(second, "NamesAccepted")[0] == "True"


def test_names_that_are_given_back_can_be_had() -> None:
    first = named("widgets", "Widget")
    accept_names(first, [], T1)
    second = named("widgets2", "Widget", singular="widget2", listKind="Widget2List")
    accept_names(second, [first], T1)
    assert told(second, "NamesAccepted") == ("False", "KindConflict", '"Widget" is already in use')
    assert accept_names(second, [], T2)
    assert told(second, "NamesAccepted")[0] == "True"
    assert establish(second, T2)


def test_an_established_definition_stays_so_when_it_asks_for_a_name_that_is_taken() -> None:
    first, second = named("widgets", "Widget", shortNames=["wd"]), named("gadgets", "Gadget")
    accept_names(first, [], T1)
    accept_names(second, [first], T1)
    establish(second, T1)
    second["spec"]["names"]["shortNames"] = ["wd"]
    assert accept_names(second, [first], T2)
    assert told(second, "NamesAccepted") == ("False", "ShortNamesConflict", '"wd" is already in use')
    assert "shortNames" not in second["status"]["acceptedNames"]
    assert is_established(second)


def test_versions_once_stored_are_remembered() -> None:
    made = definition()
    made["spec"]["versions"][0]["storage"] = False
    made["spec"]["versions"].append({"name": "v2", "storage": True})
    record_stored_version(made)
    record_stored_version(made)
    assert made["status"]["storedVersions"] == ["v1", "v2"]
