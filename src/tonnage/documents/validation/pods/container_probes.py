"""Handlers: the probes that watch a container and the hooks that run at its start and end."""

from __future__ import annotations

from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, forbidden, invalid, required
from tonnage.objects.field_rules import nonnegative, optional_choice, port_number_or_name, sentences

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def validate_probes(container: Doc, path: str, grace_period_s: int | None) -> Errors:
    """All three probes of a container that may have them."""
    errors: Errors = []
    for name in PROBES:
        if name in container:
            errors += _validate_probe(name, container[name], f"{path}.{name}", grace_period_s)
    return errors


def validate_lifecycle(lifecycle: Doc, path: str, grace_period_s: int | None) -> Errors:
    """postStart and preStop. A stop signal is dropped before it is judged: its gate is closed on a stock server."""
    errors: Errors = []
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            errors += _validate_handler(lifecycle[hook], f"{path}.{hook}", grace_period_s)
    return errors


def _validate_probe(name: str, probe: Doc, path: str, grace_period_s: int | None) -> Errors:
    errors = _validate_handler(probe, path, grace_period_s)
    for field in _COUNTS:
        errors += nonnegative(probe.get(field, 0), f"{path}.{field}")
    patience_s = probe.get("terminationGracePeriodSeconds")
    at = f"{path}.terminationGracePeriodSeconds"
    if patience_s is not None and patience_s <= 0:
        errors.append(invalid(at, patience_s, "must be greater than 0"))
    if name == "readinessProbe":
        # A container that is not ready is not killed, so there is nothing to wait for.
        if patience_s is not None:
            errors.append(invalid(at, patience_s, "must not be set for readinessProbes"))
    elif probe.get("successThreshold", 0) != 1:
        errors.append(invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def _validate_handler(handler: Doc, path: str, grace_period_s: int | None) -> Errors:
    found = [name for name in _HANDLERS if name in handler]
    if not found:
        return [required(path, "must specify a handler type")]
    action, at = handler[found[0]], f"{path}.{found[0]}"
    errors: Errors = []
    match found[0]:
        case "exec":
            if not action.get("command"):
                errors.append(required(f"{at}.command"))
        case "httpGet":
            errors += _validate_http_get(action, at)
        case "tcpSocket" | "grpc":
            errors += port_number_or_name(action.get("port", 0), f"{at}.port")
        case "sleep":
            seconds = action.get("seconds", 0)
            if grace_period_s is not None and not 0 <= seconds <= grace_period_s:
                told = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period_s})"
                errors.append(invalid(at, seconds, told))
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in found[1:]]


def _validate_http_get(action: Doc, path: str) -> Errors:
    errors = [] if action.get("path") else [required(f"{path}.path")]
    errors += port_number_or_name(action.get("port", 0), f"{path}.port")
    errors += optional_choice(action.get("scheme", ""), ("HTTP", "HTTPS"), f"{path}.scheme")
    for header in action.get("httpHeaders", ()):
        name = header.get("name", "")
        errors += sentences(f"{path}.httpHeaders", name, names.http_header_name(name))
    return errors
