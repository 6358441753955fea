"""Zero values that a Kubernetes server never writes, so that absent and zero are one and the same.

Upstream keeps most fields of a pod spec as plain Go values and leaves the zero ones out when it writes: a client may
send `hostNetwork: false`, but nobody ever reads it back. That matters beyond looks. A typed client that reads a pod
and puts it back drops the zero too, and the server must not take that for a change of a field that may not change.

The exceptions are fields whose zero means something else than their absence (`enableServiceLinks: false`, an `emptyDir`
without a `medium` but a `hostPath` of type `""`): those are pointers upstream, and are not listed here.
"""

from __future__ import annotations

from typing import Any

_FALSE = frozenset(
    {
        "chapAuthDiscovery",
        "chapAuthSession",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "readOnly",
        "sslEnabled",
        "stdin",
        "stdinOnce",
        "tty",
    }
)
_EMPTY = frozenset(
    {
        "effect",
        "hostIP",
        "hostname",
        "imagePullPolicy",
        "medium",
        "nodeName",
        "operator",
        "prefix",
        "priorityClassName",
        "schedulerName",
        "serviceAccount",
        "serviceAccountName",
        "subPath",
        "subPathExpr",
        "subdomain",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "value",
        "workingDir",
    }
)
_ZERO = frozenset(
    {
        "failureThreshold",
        "hostPort",
        "initialDelaySeconds",
        "partition",
        "periodSeconds",
        "successThreshold",
        "timeoutSeconds",
    }
)
# Not entered: maps whose keys are the user's own words, and structs that do write an empty `value`.
_CLOSED = frozenset(
    {
        "annotations",
        "httpHeaders",
        "labels",
        "limits",
        "matchLabels",
        "nodeSelector",
        "options",
        "overhead",
        "requests",
        "sysctls",
        "userAnnotations",
        "volumeAttributes",
    }
)


def drop_zeros(value: Any) -> None:
    """Remove, in place and at any depth of a pod spec, the zero values a server would not write."""
    if isinstance(value, dict):
        unwritten = []
        for field, item in value.items():
            if not item:
                if _is_unwritten(field, item):
                    unwritten.append(field)
            elif isinstance(item, (dict, list)) and field not in _CLOSED:
                drop_zeros(item)
        for field in unwritten:
            del value[field]
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, (dict, list)):
                drop_zeros(item)


def _is_unwritten(field: str, item: Any) -> bool:
    if item is False:
        return field in _FALSE
    if item == "":
        return field in _EMPTY
    # `False == 0` in Python; bools are gone by here.
    return item == 0 and not isinstance(item, (bool, str)) and field in _ZERO
