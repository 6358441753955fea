"""Kubernetes' objects: their shapes, their rules, and two ways to hold one.

The programs (scheduler, provisioner, controllers, node) hold typed, frozen objects with only the fields they read.
Start at `meta` for how such a class is made and what absence means; one module an API group and version has the kinds
(`core_v1`, `storage_v1`, `apps_v1`, …); `scheme` tells which class belongs to which resource, `codec` reads and writes.

The API server holds whole documents (`document`), because it must lose nothing. `schema` knows the shape of every kind
and `resources` where it is served; `admit`, `defaults` and `validation` are the rules a document passes.

Both share the judgements: `selectors` by label and field, `node_selectors`, `taints`. Everything here is pure: no I/O,
no clock. Modules are imported by their own names; this one imports none, so that neither half pays for the other.
"""
