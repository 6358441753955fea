"""CustomResourceDefinitions for tests: as they stand after a server has admitted and defaulted them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tonnage.documents.admit import admit
from tonnage.documents.custom.custom_resource import CustomResource, custom_resource
from tonnage.documents.custom.definition_rules import record_stored_version
from tonnage.documents.kinds.custom_resource_definition import CustomResourceDefinitionStrategy
from tonnage.documents.schema import schema_of
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy
from tonnage.objects.resources import BY_PLURAL

DEFINITIONS = CustomResourceDefinitionStrategy(BY_PLURAL["apiextensions.k8s.io", "customresourcedefinitions"], Gates())


def object_schema(properties: Doc | None = None, **more: Any) -> Doc:
    """The schema of an object with these fields."""
    return {"type": "object", **({"properties": properties} if properties else {}), **more}


def definition(schema: Doc | None = None, *, name: str = "v1", **version: Any) -> Doc:
    """Kind Widget of example.com, namespaced, with one version whose root has this schema."""
    schema = object_schema({"spec": {"type": "object"}}) if schema is None else schema
    made = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
            ],
        },
    }
    return admitted(made)


def admitted(made: Doc) -> Doc:
    """A copy of a definition with what a server fills in."""
    made = copy(made)
    admit(schema_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), made)
    DEFINITIONS.default(made)
    record_stored_version(made)
    return made


def read_definition(path: Path) -> Doc:
    """A definition in a YAML file."""
    return admitted(yaml.safe_load(path.read_text()))


def widget_kind(spec_schema: Doc, **version: Any) -> CustomResource:
    """Kind Widget whose `spec` has this schema."""
    return custom_resource(definition(object_schema({"spec": spec_schema}), **version), "v1")


def widget(spec: Any = None, **more: Any) -> Doc:
    """A document of that kind."""
    made: Doc = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    return {**made, **({"spec": spec} if spec is not None else {}), **more}
