"""What the scheduler may not do: one finding a resource, from the answers to SelfSubjectAccessReviews."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.whatif.doctor.facts import FactAnswer, Facts, GrantedAccess
from tonnage.whatif.doctor.findings import CATALOGUE, Finding
from tonnage.whatif.page import named


def access_findings(facts: Facts) -> Iterator[Finding]:
    lacking: dict[tuple[str, str, str, bool], list[GrantedAccess]] = {}
    for each in facts.access:
        asked = each.permission
        if each.is_allowed is FactAnswer.NO:
            lacking.setdefault((asked.qualified, asked.namespace, asked.name, asked.is_needed), []).append(each)
    for (resource, namespace, name, is_needed), found in lacking.items():
        verbs = [each.permission.verb for each in found]
        where = (f" {name}" if name else "") + (f" in {namespace}" if namespace else "")
        names = f'resourceNames: ["{name}"], ' if name else ""
        purposes = "; ".join(dict.fromkeys(each.permission.purpose for each in found))
        group = found[0].permission.group
        bare = resource.replace(f".{group}", "", 1) if group else resource
        yield CATALOGUE["permission-missing" if is_needed else "permission-advised"].about(
            f"{'Role' if namespace else 'ClusterRole'} {resource}",
            f"this user may not {' or '.join(verbs)} {resource}{where}: {purposes}",
            f'add the rule {{apiGroups: ["{group}"], resources: ["{bare}"], {names}verbs: {_listed(verbs)}}}'
            + (f" in namespace {namespace}" if namespace else "")
            + " to the role that Tonnage's scheduler runs with (deploy/ has all of them)",
        )
    unknown = [each for each in facts.access if each.is_allowed is FactAnswer.UNKNOWN]
    if unknown:
        yield CATALOGUE["permission-unknown"].about(
            f"Server {facts.source}",
            f"{len(unknown)} of {len(facts.access)} permissions could not be asked for "
            f"({named([f'{each.permission.verb} {each.permission.qualified}' for each in unknown])}): {unknown[0].why}",
            "allow this user to create selfsubjectaccessreviews.authorization.k8s.io (the role system:basic-user does)",
        )


def _listed(verbs: list[str]) -> str:
    return "[" + ", ".join(f'"{verb}"' for verb in verbs) + "]"
