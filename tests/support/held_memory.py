"""How much an object holds on to, whatever its fields are called: what a leak would make grow.

    before = entries_held(nominator)
    …churn…
    assert entries_held(nominator) == before

Counted are the entries of all containers that are reachable from it, never bytes. Modules, classes and the globals of
functions are nobody's own and are left out.
"""

from __future__ import annotations

import gc
from collections import deque
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

_CONTAINERS: Final = (dict, list, set, frozenset, deque)
_SHARED: Final = (type, ModuleType, BuiltinFunctionType, CodeType, FrameType)


def entries_held(*things: object) -> int:
    """The entries of all containers that these objects lead to, each container once."""
    seen: set[int] = set()
    found: list[Any] = list(things)  # what was found stays alive, so that no id is given out twice
    entries = 0
    for each in found:
        if id(each) in seen or isinstance(each, _SHARED):
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            found += each.__closure__ or ()
            continue
        if isinstance(each, _CONTAINERS):
            entries += len(each)
        fields = getattr(each, "__dict__", None)
        if isinstance(fields, dict):  # fields are no container: their number is the class's
            seen.add(id(fields))
            found += fields.values()
        found += gc.get_referents(each)
    return entries
