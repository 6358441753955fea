"""Kubernetes' objects as the programs read them: typed classes, and what all programs need to know of the API.

The programs (scheduler, provisioner, controllers, node) hold typed, frozen objects with only the fields they read.
Start at `meta` for how such a class is made and what absence means; one module an API group and version has the kinds
(`core_v1`, `storage_v1`, `apps_v1`, …); `scheme` tells which class belongs to which resource, `codec` reads and writes.

`resources` is the table of kinds and where each is served, `api_verbs` what may be done with them. `selectors` (by
label and field), `node_selectors` and `taints` judge objects. An API server holds whole documents (`document`), because
it must lose nothing; their rules are in `tonnage.documents`.

Everything here is pure: no I/O, no clock. Modules are imported by their own names; this one imports none.
"""
