"""How a pod is named and found on the network: host ports, DNS, host names and aliases."""

from __future__ import annotations

import re

from tonnage.documents.validation.addresses import validate_ip
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, forbidden, invalid, required, too_long
from tonnage.objects.field_rules import sentences

DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_NAMESERVERS_MAX, _SEARCHES_MAX, _SEARCH_CHARS_MAX = 3, 32, 2048
_HOSTNAME_MAX_BYTES = 64
_SEARCH = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH_DOMAIN = _SEARCH + r"(\." + _SEARCH + ")*"
_SEARCH_TOLD = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_SEARCH_DOMAIN}')"
)


def validate_host_network(spec: Doc, path: str, is_pod: bool) -> Errors:
    """On the host's network a container's port is the host's; a template may leave that to the pod's defaults."""
    if not spec.get("hostNetwork"):
        return []
    errors: Errors = []
    for idx, container in enumerate(spec.get("containers", ())):
        for number, port in enumerate(container.get("ports", ())):
            outside, inside = port.get("hostPort", 0), port.get("containerPort", 0)
            if (is_pod or outside) and outside != inside:
                at = f"{path}.containers[{idx}].ports[{number}].hostPort"
                errors.append(invalid(at, outside, "must match `containerPort` when `hostNetwork` is true"))
    return errors


def validate_dns(spec: Doc, path: str) -> Errors:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            told = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", told)]
    if config is None:
        return []
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    errors: Errors = []
    if len(servers) > _NAMESERVERS_MAX:
        told = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        errors.append(invalid(f"{path}.nameservers", servers, told))
    for idx, server in enumerate(servers):
        errors += validate_ip(server, f"{path}.nameservers[{idx}]")
    if len(searches) > _SEARCHES_MAX:
        told = f"must not have more than {_SEARCHES_MAX} search paths"
        errors.append(invalid(f"{path}.searches", searches, told))
    if len(" ".join(searches)) > _SEARCH_CHARS_MAX:
        told = f"must not have more than {_SEARCH_CHARS_MAX} characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, told))
    for idx, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != "." and not re.fullmatch(_SEARCH_DOMAIN, domain):
            errors.append(invalid(f"{path}.searches[{idx}]", domain, _SEARCH_TOLD))
    for idx, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{idx}]", "must not be empty"))
    return errors


def validate_hostname_override(spec: Doc, path: str) -> Errors:
    if "hostnameOverride" not in spec:
        return []
    name = spec["hostnameOverride"]
    errors: Errors = []
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden(path, "may not be specified when hostNetwork is true"))
    if len(name.encode()) > _HOSTNAME_MAX_BYTES:
        errors.append(too_long(path, _HOSTNAME_MAX_BYTES))
    return errors + sentences(path, name, names.dns_subdomain(name))


def validate_host_aliases(aliases: list[Doc], path: str) -> Errors:
    """Entries for the pod's hosts file."""
    errors: Errors = []
    for idx, alias in enumerate(aliases):
        errors += validate_ip(alias.get("ip", ""), f"{path}[{idx}].ip")
        for number, host in enumerate(alias.get("hostnames", ())):
            errors += sentences(f"{path}[{idx}].hostnames[{number}]", host, names.dns_subdomain(host))
    return errors
