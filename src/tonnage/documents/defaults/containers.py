"""Defaults of one container: pull policy by tag, where it leaves its last words, ports, probes, amounts.

Mirrors upstream's SetDefaults_Container and what its generated code does to the parts of a container.
"""

from __future__ import annotations

import re

from tonnage.documents.defaults.amounts import round_amounts
from tonnage.objects.document import Doc

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}

# What upstream's image parser accepts, as far as the tag depends on it: an optional registry host, a path of
# lower-case words, a tag, a digest.
_HOST = r"(?:[a-zA-Z0-9][a-zA-Z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_WORD}(?:/{_WORD})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[\w.+-]+:[0-9a-f]{{32,}})?"
)


def default_container(container: Doc) -> None:
    """Fill in, in place, what upstream fills in for a regular, init or ephemeral container."""
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            source["fieldRef"].setdefault("apiVersion", "v1")
        if "fileKeyRef" in source:
            source["fileKeyRef"].setdefault("optional", False)
        if "resourceFieldRef" in source:
            # Upstream's divisor is a plain quantity, which is written even when it is zero.
            source["resourceFieldRef"].setdefault("divisor", "0")
    default_amounts(container["resources"])
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for handler in container.get("lifecycle", {}).values():
        if isinstance(handler, dict) and "httpGet" in handler:
            _default_http_get(handler["httpGet"])


def pull_policy(image: str) -> str:
    """`Always` for the tag `latest`, said or implied; a digest or a text that is no image name needs no second look."""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def default_amounts(resources: Doc) -> None:
    """Round limits and requests up to thousandths, which is all that upstream keeps."""
    round_amounts(resources.get("limits"))
    round_amounts(resources.get("requests"))


def _default_probe(probe: Doc) -> None:
    for field, value in _PROBE_DEFAULTS.items():
        probe.setdefault(field, value)
    if "httpGet" in probe:
        _default_http_get(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(action: Doc) -> None:
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"
