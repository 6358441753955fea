"""Placement of a pod: affinity, spread, tolerations, scheduling gates, and how they may change while it is gated.

Mirrors validateAffinity, validateTopologySpreadConstraints, ValidateTolerations and their like. A gated pod's placement
may be tightened, never loosened; tolerations may only be added.
"""

from __future__ import annotations

from tonnage.documents.strategy import TypeRules
from tonnage.documents.validation import metadata
from tonnage.documents.validation.internal_form import internal
from tonnage.documents.validation.metadata import PREFERRED, REQUIRED
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import Errors, Wrong, duplicate, forbidden, invalid, unsupported


def validate_affinity(affinity: Doc, path: str) -> Wrong:
    node = affinity.get("nodeAffinity", {})
    if REQUIRED in node:
        yield from metadata.validate_node_selector(node[REQUIRED], f"{path}.nodeAffinity.{REQUIRED}")
    yield from rules.check(affinity, path, _AFFINITY)


def validate_topology_spread(constraints: list[Doc], path: str) -> Wrong:
    """Spread constraints; a pair of topologyKey and whenUnsatisfiable may occur once."""
    last = {_pair(constraint): idx for idx, constraint in enumerate(constraints)}
    for idx, constraint in enumerate(constraints):
        at, (key, action) = f"{path}[{idx}]", _pair(constraint)
        yield from _SPREAD(constraint, at, "maxSkew..whenUnsatisfiable")
        if last[key, action] > idx:
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _SPREAD(constraint, at, "minDomains..labelSelector")


def _pair(constraint: Doc) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _validate_operator(toleration: Doc, path: str) -> Wrong:
    operator, value, path = toleration.get("operator", ""), toleration.get("value", ""), f"{path}.operator"
    if operator in ("Equal", ""):
        if wrong := names.label_value(value):
            yield invalid(path, value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            yield invalid(path, value, "value must be empty when `operator` is 'Exists'")
    else:
        # The gate of Lt and Gt is closed on a stock server; upstream's error about them lists them all the same.
        yield unsupported(path, operator, ("Equal", "Exists", *(("Lt", "Gt") if operator in ("Lt", "Gt") else ())))


def validate_scheduling_gates(gates: list[Doc], path: str) -> Errors:
    rule = rules.each(rules.both(rules.named(names.qualified_name), rules.unique()))
    return rule([gate.get("name", "") for gate in gates], path)


def validate_only_added_tolerations(new: Doc, old: Doc) -> Errors:
    """Every toleration of the old spec is still there; only its tolerationSeconds may change."""
    if {*map(_without_seconds, old.get("tolerations", ()))} <= {*map(_without_seconds, new.get("tolerations", ()))}:
        return []
    return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def validate_only_removed_gates(new: Doc, old: Doc) -> Errors:
    """A spec gets no new scheduling gates: a removed gate does not come back."""
    gates, known = ([gate.get("name", "") for gate in spec.get("schedulingGates", ())] for spec in (new, old))
    told = "only deletion is allowed, but found new scheduling gate"
    added = ((idx, name) for idx, name in enumerate(gates) if name not in known)
    return [forbidden(f"spec.schedulingGates[{idx}].name", f"{told} '{name}'") for idx, name in added]


def validate_node_affinity_mutation(new: Doc, old: Doc) -> Errors:
    """A gated pod's required node affinity may only gain requirements: another term would loosen it."""
    before = old.get(REQUIRED, {}).get("nodeSelectorTerms", [])
    after = new.get(REQUIRED, {}).get("nodeSelectorTerms", [])
    at = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if before and len(before) != len(after):
        shown = [internal("NodeSelectorTerm", term) for term in after] or None
        return [invalid(at, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    told = "only additions are allowed (no mutations or deletions)"
    pairs = enumerate(zip(after, before, strict=False))
    changed = ((idx, term) for idx, (term, was) in pairs if not _only_adds(term, was))
    return [invalid(f"{at}[{idx}]", internal("NodeSelectorTerm", term), told) for idx, term in changed]


def _only_adds(new: Doc, old: Doc) -> bool:
    lists = [(new.get(field, []), old.get(field, [])) for field in ("matchExpressions", "matchFields")]
    if not any(was for _, was in lists):
        # An empty term matches nothing; a first requirement would make it match something.
        return not any(now for now, _ in lists)
    return all(same(now[: len(was)], was) for now, was in lists)


def _without_seconds(toleration: Doc) -> frozenset[tuple[str, str]]:
    return frozenset((field, value) for field, value in toleration.items() if field != "tolerationSeconds")


def _validate_label_keys(term: Doc, path: str) -> Wrong:
    """Mirrors ValidateMatchLabelKeysAndMismatchLabelKeys. The keys are already merged into the selector."""
    selector = term.get("labelSelector")
    match, mismatch = term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            yield forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
        elif keys:
            yield from rules.each(rules.validate_label_name)(keys, f"{path}.{field}")
    positions = {key: idx for idx, key in enumerate(match)}
    seen = set((selector or {}).get("matchLabels", {}))
    for requirement in (selector or {}).get("matchExpressions", ()):
        key = requirement.get("key", "")
        if key in seen and key in positions:
            told = "exists in both matchLabelKeys and labelSelector"
            yield invalid(f"{path}[{positions[key]}]", key, told)
        seen.add(key)
    avoided = set(mismatch)
    for idx, key in enumerate(match):
        if key in avoided:
            told = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{idx}]", key, told)


validate_tolerations = rules.each(TypeRules("core.Toleration", operator=rules.OfWhole(_validate_operator)))
_LABEL_KEYS = rules.OfWhole(_validate_label_keys)
_SPREAD = TypeRules("core.TopologySpreadConstraint", matchLabelKeys=_LABEL_KEYS)
_NAMESPACE = rules.named(names.dns_label)
_POD_TERM = TypeRules(
    "core.PodAffinityTerm",
    # As upstream, the path has neither an s nor an index.
    namespaces=lambda named, path: [error for name in named for error in _NAMESPACE(name, path.removesuffix("s"))],
    mismatchLabelKeys=_LABEL_KEYS,
)


def _validate_preference(term: Doc, path: str) -> Errors:
    """Label values are not validated: a preference that matches nothing does no harm."""
    return metadata.except_label_values(metadata.validate_node_selector_term(term, path), path)


_POD_AFFINITY: rules.Rules = {
    REQUIRED: rules.each(_POD_TERM),
    PREFERRED: rules.each(TypeRules("core.WeightedPodAffinityTerm", podAffinityTerm=_POD_TERM)),
}
_AFFINITY: rules.Rules = {
    f"nodeAffinity.{PREFERRED}": rules.each(TypeRules("core.PreferredSchedulingTerm", preference=_validate_preference)),
    "podAffinity": rules.part(_POD_AFFINITY),
    "podAntiAffinity": rules.part(_POD_AFFINITY),
}
