"""CustomResourceDefinition itself: defaults, rules, what may be changed, and what is warned about."""

from __future__ import annotations

from typing import Any

import pytest

from support.definition_builders import DEFINITIONS, admitted, definition, object_schema
from tonnage.documents.custom.definition_rules import accept_names, establish
from tonnage.objects.document import Doc, copy

NOW = "2026-01-01T00:00:00Z"
TEXT: Doc = {"type": "string"}


def changed(base: Doc | None = None, **fields: Any) -> Doc:
    """A definition with fields of its spec replaced; `names__kind` is a field of a field."""
    made: Doc = copy(base or definition())
    for path, value in fields.items():
        *parents, last = path.split("__")
        place = made["spec"]
        for name in parents:
            place = place[name]
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return made


def told(made: Doc) -> list[str]:
    return [str(error) for error in DEFINITIONS.validate(made)]


def version(name: str, schema: Doc | None = None, **more: Any) -> Doc:
    schema = object_schema({name: TEXT}) if schema is None else schema
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}, **more}


def test_names_and_conversion_are_filled_in() -> None:
    made: Doc = {"spec": {"names": {"kind": "LVMNode", "plural": "lvmnodes"}}}
    DEFINITIONS.default(made)
    assert made["spec"]["names"] == {
        "kind": "LVMNode", "plural": "lvmnodes", "singular": "lvmnode", "listKind": "LVMNodeList",
    }  # fmt: skip
    assert made["spec"]["conversion"] == {"strategy": "None"}


def test_a_plain_definition_is_fine() -> None:
    assert told(definition()) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"group": ""}, "spec.group: Required value"),
        ({"group": "local"}, 'spec.group: Invalid value: "local": should be a domain with at least one dot'),
        ({"scope": ""}, "spec.scope: Required value"),
        ({"scope": "Galaxy"}, 'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"'),
        ({"names__kind": ""}, "spec.names.kind: Required value"),
        ({"names__listKind": "Widget"},
         'spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same'),
        ({"conversion": {"strategy": ""}}, "spec.conversion.strategy: Required value"),
        ({"conversion": {"strategy": "Magic"}},
         'spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook"'),
        ({"conversion": {"strategy": "Webhook"}},
         "spec.conversion.strategy: Forbidden: this server calls no conversion webhooks; keep versions that differ in "
         "nothing but their name, and None"),
        ({"preserveUnknownFields": True},
         "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
         "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"),
    ],
)  # fmt: skip
def test_fields_of_the_spec(fields: Doc, expected: str) -> None:
    assert expected in told(changed(**fields))


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [("plural", "Widgets", "plural"), ("singular", "a_b", "singular"), ("kind", "Wid get", "kind"),
     ("shortNames", ["ok", "W"], "shortNames[1]"), ("categories", ["A"], "categories[0]")],
)  # fmt: skip
def test_names_are_dns_labels(field: str, value: Any, path: str) -> None:
    assert [
        each for each in told(changed(**{f"names__{field}": value})) if each.startswith(f"spec.names.{path}: Invalid")
    ]


def test_the_name_is_plural_and_group() -> None:
    made = definition()
    made["metadata"]["name"] = "widget.example.com"
    assert told(made) == [
        'metadata.name: Invalid value: "widget.example.com": must be spec.names.plural+"."+spec.group'
    ]


def test_versions_have_unique_names_one_storage_and_a_schema() -> None:
    one = definition()
    one["spec"]["versions"].append(version("v1"))
    assert [each.rpartition(": ")[2] for each in told(one)] == ["must contain unique version names"]
    two = definition()
    two["spec"]["versions"].append(version("v2", storage=True))
    assert any(each.endswith("must have exactly one version marked as storage version") for each in told(two))
    three = definition()
    three["spec"]["versions"].append({"name": "V2", "served": True, "storage": False})
    problems = told(three)
    assert "spec.versions[1].schema.openAPIV3Schema: Required value" in problems
    assert any(each.startswith('spec.versions[1].name: Invalid value: "V2"') for each in problems)


def test_what_all_versions_share_is_told_once_and_elsewhere_by_version() -> None:
    wrong = object_schema({"a": {}})
    assert told(definition(wrong))[0].startswith("spec.validation.openAPIV3Schema.properties[a].type: Required value")
    several = definition()
    several["spec"]["versions"].append(version("v2", wrong))
    assert [each.partition(": ")[0] for each in told(several)] == [
        "spec.versions[1].schema.openAPIV3Schema.properties[a].type"
    ]


def test_a_deprecation_warning_needs_a_deprecated_version() -> None:
    assert told(definition(deprecated=True, deprecationWarning="use v2")) == []
    assert told(definition(deprecationWarning="use v2")) == [
        'spec.versions[0].deprecationWarning: Invalid value: "use v2": can only be set for deprecated versions'
    ]


def test_scale_names_paths_below_spec_and_status() -> None:
    good = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}
    assert told(definition(subresources={"status": {}, "scale": good})) == []
    bad = {"specReplicasPath": ".n", "labelSelectorPath": "spec"}
    assert told(definition(subresources={"scale": bad})) == [
        'spec.subresources.scale.specReplicasPath: Invalid value: ".n": should be a json path under .spec',
        "spec.subresources.scale.statusReplicasPath: Required value",
        'spec.subresources.scale.labelSelectorPath: Invalid value: "spec": must be a simple json path starting with .',
    ]


def test_with_a_status_subresource_the_root_judges_only_its_fields() -> None:
    schema = object_schema({"spec": {"type": "object"}}, minProperties=1)
    assert told(definition(schema)) == []
    assert "fields are allowed at the root of the schema" in told(definition(schema, subresources={"status": {}}))[0]


def test_printer_columns() -> None:
    good = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    assert told(definition(additionalPrinterColumns=[good])) == []
    assert told(definition(additionalPrinterColumns=[{"format": "hex", "type": "blob", "jsonPath": "spec"}])) == [
        "spec.additionalPrinterColumns[0].name: Required value",
        'spec.additionalPrinterColumns[0].type: Invalid value: "blob": must be one of '
        "boolean,date,integer,number,string",
        'spec.additionalPrinterColumns[0].format: Invalid value: "hex": must be one of '
        "byte,date,date-time,double,float,int32,int64,password",
        'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple json path starting with .',
    ]


def test_selectable_fields() -> None:
    schema = object_schema({"spec": object_schema({"colour": TEXT, "o": object_schema({"n": {"type": "number"}})})})

    def with_fields(*paths: str) -> list[str]:
        made = definition(schema, selectableFields=[{"jsonPath": path} for path in paths])
        return [each.partition(": ")[2] for each in told(made)]

    assert with_fields(".spec.colour") == []
    assert with_fields(".spec.colour", ".spec.colour") == ['Duplicate value: ".spec.colour"']
    assert with_fields(".spec.size") == [
        'Invalid value: ".spec.size": is an invalid path: does not refer to a valid field'
    ]
    assert with_fields(".spec.list[0]") == [
        'Invalid value: ".spec.list[0]": is an invalid path: array notation is not allowed'
    ]
    assert with_fields(".spec.o.n") == [
        'Invalid value: ".spec.o.n": must point to a field of type string, boolean or integer. Enum string fields and '
        "strings with formats are allowed."
    ]


def test_a_protected_group_needs_its_approval() -> None:
    made = changed(group="storage.k8s.io")
    made["metadata"] = {"name": "widgets.storage.k8s.io"}
    assert told(made)[0].startswith(
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval "
    )
    for said in ("https://github.com/kubernetes/kubernetes/pull/1", "unapproved, an experiment"):
        made["metadata"]["annotations"] = {"api-approved.kubernetes.io": said}
        assert told(made) == []


# -- updates ----------------------------------------------------------------------------------------------------------


def established(made: Doc) -> Doc:
    accept_names(made, [], NOW)
    establish(made, NOW)
    return made


def test_group_and_plural_never_change_and_scope_and_kind_not_once_established() -> None:
    old = definition()
    new = changed(old, group="other.com", names__plural="gadgets", scope="Cluster", names__kind="Gadget")
    immutable = {str(each).partition(":")[0] for each in DEFINITIONS.validate_update(new, old)}
    assert immutable == {"spec.group", "spec.names.plural"}
    late = {str(each).partition(":")[0] for each in DEFINITIONS.validate_update(new, established(old))}
    assert late == {"spec.group", "spec.names.plural", "spec.scope", "spec.names.kind"}


def test_a_version_that_was_ever_stored_stays() -> None:
    old = definition()
    new = copy(old)
    new["spec"]["versions"] = [version("v2", storage=True)]
    new = admitted(new)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert [str(each).partition(": Invalid")[0] for each in DEFINITIONS.validate_update(new, old)] == [
        "status.storedVersions[0]"
    ]
    new["status"]["storedVersions"] = ["v2"]
    assert DEFINITIONS.validate_update(new, old) == []


def test_a_schema_that_was_accepted_once_is_not_held_against_an_update() -> None:
    old = definition(object_schema({"a": {}}))
    new = copy(old)
    new["spec"]["names"]["shortNames"] = ["wd"]
    assert DEFINITIONS.validate_update(new, old) == []
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["b"] = {}
    assert DEFINITIONS.validate_update(new, old) != []


# -- warnings ---------------------------------------------------------------------------------------------------------


def test_rules_in_cel_are_stored_and_it_is_said_that_they_are_not_evaluated() -> None:
    made = definition(object_schema({"x": {**TEXT, "x-kubernetes-validations": [{"rule": "self != ''"}]}}))
    assert told(made) == []
    sentence = "x-kubernetes-validations: this server stores CEL rules and does not evaluate them"
    assert DEFINITIONS.warnings(made, None) == [sentence]
    assert DEFINITIONS.warnings(made, made) == []


def test_a_format_that_nobody_checks_is_warned_about_once() -> None:
    made = definition(object_schema({"x": {**TEXT, "format": "phone"}, "y": {"type": "integer", "format": "int32"}}))
    assert DEFINITIONS.warnings(made, None) == ['unrecognized format "phone"']
    assert DEFINITIONS.warnings(made, made) == []
