"""Custom resources: what a CustomResourceDefinition (apiextensions.k8s.io/v1) says, and what follows for documents.

`definition` judges the definition itself, `status` what a server writes into it. A version's schema is compiled once
(`structural`) and then followed by `pruning`, `defaulting`, `validation` and `merging`; `printer_columns` and `openapi`
show it to clients. `custom_kind` puts these together: one object for each served version, and the only one a server
needs. All of it is pure.
"""
