"""Custom resources: what a CustomResourceDefinition (apiextensions.k8s.io/v1) says, and what follows for documents.

`kinds/custom_resource_definition.py` judges the definition itself by `definition_rules` and `schema_rules`. A version's
schema is compiled once (`structural`) and then followed by `pruning`, `validation` and `merging`; `printer_columns` and
`openapi` show it to clients. `custom_resource` puts these together: one object for each served version.
"""
