"""Pod Security Standards, level restricted, as a function over a pod's spec.

After https://kubernetes.io/docs/concepts/security/pod-security-standards/; each rule names its control
there. Only what pods of ours could break is judged: Linux, and no fields of Windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_SAFE_SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies"}


def violations(spec: dict[str, Any]) -> list[str]:
    """What of the standard a pod breaks, a line each; nothing when it is restricted."""
    return [*_of_pod(spec), *(line for container in _containers(spec) for line in _of_container(container, spec))]


def _containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field, [])


def _of_pod(spec: dict[str, Any]) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"host namespaces: {field}"
    for volume in spec.get("volumes", []):
        kinds = set(volume) - {"name"}
        if not kinds <= _VOLUMES:
            yield f"volume types: {volume['name']} is {', '.join(sorted(kinds - _VOLUMES))}"
    for sysctl in spec.get("securityContext", {}).get("sysctls", []):
        if sysctl["name"] not in _SAFE_SYSCTLS:
            yield f"sysctls: {sysctl['name']}"


def _of_container(container: dict[str, Any], spec: dict[str, Any]) -> Iterator[str]:
    name, pod, own = container["name"], spec.get("securityContext", {}), container.get("securityContext", {})
    if own.get("privileged"):
        yield f"privileged containers: {name}"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"privilege escalation: {name} does not set allowPrivilegeEscalation: false"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield f"capabilities: {name} does not drop ALL"
    if added := set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"capabilities: {name} adds {', '.join(sorted(added))}"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield f"running as non-root: {name} does not set runAsNonRoot: true"
    if own.get("runAsUser", pod.get("runAsUser")) == 0:
        yield f"running as non-root user: {name} runs as 0"
    seccomp = own.get("seccompProfile", pod.get("seccompProfile", {})).get("type")
    if seccomp not in ("RuntimeDefault", "Localhost"):
        yield f"seccomp: {name} is {seccomp}"
    if own.get("procMount", "Default") != "Default":
        yield f"/proc mount type: {name}"
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield f"host ports: {name}"
