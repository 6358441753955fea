"""Shared rules for plugin arguments: shapes, weighted resources, node selectors, default constraints.

Rules return field errors in kube-scheduler's wording (pkg/scheduler/apis/config/validation and component-helpers'
nodeaffinity, of 1.36). `plugin_args` has the arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from tonnage.objects import core_v1, field_rules
from tonnage.objects.field_errors import Errors, duplicate, forbidden, invalid, required, unsupported
from tonnage.objects.requirements import NodeSelectorTerm, requirement_errors
from tonnage.scheduling.cluster.columns import Ints
from tonnage.scheduling.configuration.strict_decoding import Int64, Section

MAX_SHAPE_SCORE = 10
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


class UtilizationShapePoint(Section):
    """At `utilization` percent the score is `score`, 0 to 10; between two points it runs in a straight line."""

    utilization: int = 0
    score: int = 0


class ResourceSpec(Section):
    """A resource that counts `weight` times."""

    name: str = ""
    weight: Int64 = 1


def shape_errors(shape: Sequence[UtilizationShapePoint], path: str) -> Errors:
    """At least one point, by rising utilization. Mirrors validateFunctionShape."""
    if not shape:
        return [required(path, "at least one point must be specified")]
    errors: Errors = []
    for idx in range(1, len(shape)):
        if shape[idx - 1].utilization >= shape[idx].utilization:
            told = "values must be sorted in increasing order"
            errors.append(invalid(f"{path}[{idx}].utilization", shape[idx].utilization, told))
            break  # later steps down mostly follow from the first
    for idx, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            errors.append(invalid(f"{path}[{idx}].utilization", point.utilization, "not in valid range [0, 100]"))
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            told = f"not in valid range [0, {MAX_SHAPE_SCORE}]"
            errors.append(invalid(f"{path}[{idx}].score", point.score, told))
    return errors


def resource_errors(resources: Sequence[ResourceSpec], path: str) -> Errors:
    """Mirrors validateResources."""
    return [
        invalid(f"{path}[{idx}].weight", each.weight, f"resource weight of {each.name} not in valid range (0, 100]")
        for idx, each in enumerate(resources)
        if not 0 < each.weight <= 100
    ]


def constraint_errors(constraints: Sequence[core_v1.TopologySpreadConstraint], path: str) -> Errors:
    """Default constraints have no selector: each pod brings its own. Mirrors ValidatePodTopologySpreadArgs."""
    errors: Errors = []
    for idx, each in enumerate(constraints):
        at = f"{path}[{idx}]"
        if each.max_skew <= 0:
            errors.append(invalid(f"{at}.maxSkew", each.max_skew, "not in valid range (0, inf)"))
        if not each.topology_key:
            errors.append(required(f"{at}.topologyKey", "can not be empty"))
        else:
            errors += field_rules.validate_label_name(each.topology_key, f"{at}.topologyKey")
        if not each.when_unsatisfiable:
            errors.append(required(f"{at}.whenUnsatisfiable", "can not be empty"))
        elif each.when_unsatisfiable not in _ACTIONS:
            errors.append(unsupported(f"{at}.whenUnsatisfiable", each.when_unsatisfiable, _ACTIONS))
        if each.label_selector is not None:
            told = "constraint must not define a selector, as they deduced for each pod"
            errors.append(forbidden(f"{at}.labelSelector", told))
        pair = (each.topology_key, each.when_unsatisfiable)
        if any((other.topology_key, other.when_unsatisfiable) == pair for other in constraints[:idx]):
            errors.append(duplicate(at, f"{{{pair[0]}, {pair[1]}}}"))
    return errors


def node_affinity_errors(affinity: core_v1.NodeAffinity, path: str) -> Errors:
    """Parse errors of an affinity for all pods; looser than the API server's rules for pods. Mirrors NewNodeSelector
    and NewPreferredSchedulingTerms."""
    errors: Errors = []
    if affinity.required is not None:
        at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for idx, term in enumerate(affinity.required.node_selector_terms):
            errors += _term_errors(term, f"{at}[{idx}]")
    for idx, preferred in enumerate(affinity.preferred):
        if preferred.weight != 0:
            # Upstream leaves `preference` out of the path.
            at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{idx}]"
            errors += _term_errors(preferred.preference, at)
    return errors


def _term_errors(term: NodeSelectorTerm, path: str) -> Errors:
    errors: Errors = []
    for idx, requirement in enumerate(term.match_expressions):
        at = f"{path}.matchExpressions[{idx}]"
        if requirement.operator in _OPERATORS:
            errors += requirement_errors(requirement, f"{at}.")
        else:
            errors.append(unsupported(f"{at}.operator", requirement.operator, _OPERATORS))
    for idx, requirement in enumerate(term.match_fields):
        at = f"{path}.matchFields[{idx}]"
        if requirement.operator not in ("In", "NotIn"):
            errors.append(unsupported(f"{at}.operator", requirement.operator, ("In", "NotIn")))
        elif len(requirement.values) != 1:
            errors.append(invalid(f"{at}.values", requirement.values or None, "must have one element"))
    return errors


Shape = tuple[tuple[int, int], ...]
"""(utilisation in percent, score 0..100), by rising utilisation."""

_TO_PERCENT = 10
"""Scores in files are 0 to 10; nodes are scored 0 to 100."""


def shape_of(points: Iterable[UtilizationShapePoint]) -> Shape:
    """The shape of a configuration file."""
    return tuple((point.utilization, point.score * _TO_PERCENT) for point in points)


def along(shape: Shape, utilisation: Ints) -> Ints:
    """The score at each utilisation, on straight lines between the shape's points; division truncates, like Go's."""
    score = np.full_like(utilisation, shape[-1][1])
    for (left, low), (right, high) in reversed(list(pairwise(shape))):
        rise = (high - low) * (utilisation - left)
        step = np.sign(rise) * (np.abs(rise) // (right - left))
        score = np.where(utilisation <= right, low + step, score)
    return np.where(utilisation <= shape[0][0], shape[0][1], score)
