"""Custom resources: what a CustomResourceDefinition (apiextensions.k8s.io/v1) means for documents.

`kinds/custom_resource_definition.py` validates the definition by `definition_rules` and `schema_rules`. A version's
schema is compiled once (`structural`) for `pruning`, `validation` and merging; `printer_columns` shows objects to
clients. `custom_resource` puts these together: one object for every served version.
"""
