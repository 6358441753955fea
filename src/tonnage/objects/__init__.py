"""Kubernetes' objects as programs read them: typed, frozen classes with only the fields that programs read.

Start at `meta` for how such a class is made and what absence means; one module per API group and version has the kinds;
`codec` reads and writes, and maps resources to classes. `resources` is the table of kinds and their paths;
`selectors` and `requirements` match objects. An API server holds whole documents (`document`); their rules are in
`tonnage.documents`. Everything here is pure: no I/O, no clock.
"""
