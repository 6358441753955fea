"""JSON that nests more deeply than Python can follow: found, and read without what lies too deep.

Kubernetes' own server takes ten thousand levels, in `managedFields` for one, where nobody but the server looks; and
earlier versions of ours took as many as Python's stack allowed, and could then not touch the object again. A program
that reads such an object leaves out what lies below the limit. Nothing here needs a stack.
"""

from __future__ import annotations

import re

from tonnage.objects.texts.decode_budget import MAX_DEPTH

FOLLOWED_DEPTH = 2 * MAX_DEPTH
"""How deep programs follow what a server sends: an object at its limit, and what lists and events lay around it."""

# A string that never ends reaches to the end of the text: no second search starts within it.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def shallow(data: bytes | str, depth: int = FOLLOWED_DEPTH) -> bytes:
    """The same JSON with at most so many levels: the maps and lists of the last one are left empty."""
    text = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    kept: list[bytes] = []
    level = taken = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        mark = found[0]
        if mark in (b"{", b"["):
            level += 1
            if level == depth:
                kept.append(text[taken : found.end()])
        elif mark in (b"}", b"]"):
            if level == depth:
                taken = found.start()
            level -= 1
    # Of a text that ends within: what was left out stays out, and the reader says that it is no JSON.
    if level < depth:
        kept.append(text[taken:])
    return b"".join(kept)
