"""NetworkPolicy: stored, not enforced, for pods of an embedded cluster have no network of their own.

CIDRs that a policy already had are not validated again. Mirrors ValidateNetworkPolicy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Set
from functools import partial

from tonnage.documents.strategy import Generation, Strategy, TypeRules
from tonnage.documents.validation.metadata import except_label_values, validate_label_selector
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid, required

_RULES = (("ingress", "from"), ("egress", "to"))
_POLICY, _POLICY_PORT = TypeRules("networking.NetworkPolicySpec"), TypeRules("networking.NetworkPolicyPort")
_STRICT_SUBSET = "must be a strict subset of `cidr`"


class NetworkPolicyStrategy(Strategy):
    generation = Generation.COUNTED

    def validate(self, doc: Doc, old: Doc | None = None) -> Errors:
        spec = doc.get("spec", {})
        was: Doc = old.get("spec", {}) if old is not None else {}
        kept = frozenset(text for _, text in _ranges(was))
        errors = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
        for direction, peers in _RULES:
            for idx, rule in enumerate(spec.get(direction, [])):
                peer, port = rules.each(partial(_validate_peer, kept=kept)), rules.each(_validate_port)
                errors += rules.check(rule, f"spec.{direction}[{idx}]", {"ports": port, peers: peer})
        if validate_label_selector(was.get("podSelector"), ""):
            errors = except_label_values(errors, "spec")
        types = spec.get("policyTypes", [])
        if len(types) > 2:
            return [*errors, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
        return errors + _POLICY(spec, "spec")

    validate_update = validate

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """Warnings about legal CIDRs in a form that is not canonical. Mirrors GetWarningsForCIDR."""
        return range_warnings(_ranges(new.get("spec", {})))


def _ranges(spec: Doc) -> Iterator[tuple[str, str]]:
    for direction, peers in _RULES:
        for idx, rule in enumerate(spec.get(direction, [])):
            for number, peer in enumerate(rule.get(peers, [])):
                at, block = f"spec.{direction}[{idx}].{peers}[{number}].ipBlock", peer.get("ipBlock", {})
                if "cidr" in block:
                    yield f"{at}.cidr", block["cidr"]
                yield from ((f"{at}.except[{place}]", text) for place, text in enumerate(block.get("except", [])))


def _validate_port(port: Doc, at: str) -> Wrong:
    yield from _POLICY_PORT(port, at)
    number, end = port.get("port"), port.get("endPort")
    if end is not None and not isinstance(number, int):
        told = "not specified" if number is None else "non-numeric"
        yield invalid(f"{at}.endPort", end, f"may not be specified when `port` is {told}")
    if number is not None:
        yield from rules.port_number_or_name(number, f"{at}.port")
    if end is not None and isinstance(number, int):
        if end < number:  # as upstream, the value shown is the port's, not the end's
            yield invalid(f"{at}.endPort", number, "must be greater than or equal to `port`")
        yield from rules.sentences(f"{at}.endPort", end, names.port_number(end))


def _validate_peer(peer: Doc, at: str, kept: Set[str]) -> Wrong:
    for field in ("podSelector", "namespaceSelector"):
        yield from validate_label_selector(peer.get(field), f"{at}.{field}")
    if "ipBlock" in peer:
        yield from _validate_block(peer["ipBlock"], f"{at}.ipBlock", kept)
    if not peer:
        yield required(at, "must specify a peer")
    elif "ipBlock" in peer and len(peer) > 1:
        yield forbidden(at, "may not specify both ipBlock and another peer")


def _validate_block(block: Doc, at: str, kept: Set[str]) -> Errors:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{at}.cidr")]
    errors = rules.validate_cidr(cidr, f"{at}.cidr", kept)
    outer = _network(cidr)
    if outer is None:
        return errors
    for idx, text in enumerate(block.get("except", [])):
        errors += rules.validate_cidr(text, f"{at}.except[{idx}]", kept)
        inner = _network(text)
        is_inside = inner is not None and inner.network_address in outer and outer.prefixlen < inner.prefixlen
        if inner is not None and not is_inside:
            errors.append(invalid(f"{at}.except[{idx}]", text, _STRICT_SUBSET))
    return errors


def range_warnings(ranges: Iterable[tuple[str, str]]) -> list[str]:
    return [
        f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{network}")'
        for path, text in ranges
        if ":" in text and (network := _network(text)) is not None and str(network) != text
    ]


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The CIDR in a text, parsed as leniently as Kubernetes does; None if it is invalid."""
    base, _, length = text.partition("/")
    address = rules.parse_ip(base)
    if address is None or not length.isdigit() or int(length) > address.max_prefixlen:
        return None
    return ipaddress.ip_network(f"{address}/{int(length)}", strict=False)
