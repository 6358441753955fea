"""Kubernetes' objects as the programs read them: typed, frozen classes with only the fields that programs read.

Start at `meta` for how such a class is made and what absence means; one module an API group and version has the kinds;
`scheme` tells which class belongs to which resource, `codec` reads and writes. `resources` is the table of kinds and
where each is served; `selectors` and `node_selectors` judge objects. An API server holds whole documents (`document`);
their rules are in `tonnage.documents`. Everything here is pure: no I/O, no clock.
"""
