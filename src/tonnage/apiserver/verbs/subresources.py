"""The subresources with a mind of their own: binding, eviction, scale, finalize.

Each rule is a pure function of `objects`; here it meets the store. `status` is not here: it is an ordinary update with
another strategy method, see `registry.change`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tonnage.apiserver import answers, bodies, status
from tonnage.apiserver.options import WriteOptions, write_options
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Answer, Call
from tonnage.apiserver.strategies.namespace import finalize
from tonnage.apiserver.verbs import deleting
from tonnage.apiserver.verbs.patching import patcher
from tonnage.apiserver.verbs.writing import check_name
from tonnage.errors import BadRequest, Conflict
from tonnage.objects.admit import Malformed, admit
from tonnage.objects.binding import bind, validate_binding
from tonnage.objects.document import Doc, decode, dig
from tonnage.objects.eviction import (
    Decision,
    OnConflict,
    judge_eviction,
    mark_disrupted,
    still_processing,
    validate_eviction,
)
from tonnage.objects.pod_admission import topology_labels
from tonnage.objects.resources import BY_PLURAL
from tonnage.objects.scale import apply_scale, scale_of
from tonnage.objects.schema import schema_of

_PODS = BY_PLURAL["", "pods"]
_NODES = BY_PLURAL["", "nodes"]
_BUDGETS = BY_PLURAL["policy", "poddisruptionbudgets"]
_EVICTION_TRIES = 5


async def create_binding(registry: Registry, call: Call) -> Answer:
    """POST pods/{name}/binding: the scheduler's decision becomes the pod's node."""
    options = _options("create", call)
    binding = _read(call, "", "v1", "Binding")
    validate_binding(binding, call.name)
    node = registry.store.get(_NODES.key("", dig(binding, "target", "name") or ""))
    inherited = topology_labels(decode(node.document)) if node is not None else {}
    if inherited:
        meta = binding.setdefault("metadata", {})
        meta["labels"] = {**inherited, **meta.get("labels", {})}

    def bound(pod: Doc) -> Doc:
        return bind(pod, binding, registry.gates, now=registry.now())

    await registry.rewrite(_PODS, call.namespace, call.name, bound, dry_run=options.dry_run)
    return answers.plain(call, status.created_nothing(), 201)


async def create_eviction(registry: Registry, call: Call) -> Answer:
    """POST pods/{name}/eviction: deletion that asks the pod's disruption budget first."""
    options = _options("create", call)
    eviction = _read(call, "policy", "v1", "Eviction")
    validate_eviction(eviction, call.name)
    for _ in range(_EVICTION_TRIES):
        pod = decode(registry.read(_PODS, call.namespace, call.name).document)
        decision = _judge(registry, call, pod, eviction, options)
        try:
            await _carry_out(registry, call, pod, decision)
        except Conflict:
            if decision.on_conflict is OnConflict.TRY_LATER:
                raise still_processing(decision.budget_name) from None
            if decision.on_conflict is OnConflict.FAIL:
                raise
            continue
        return answers.plain(call, status.created_nothing(), 201)
    raise still_processing(decision.budget_name)


def _judge(registry: Registry, call: Call, pod: Doc, eviction: Doc, options: WriteOptions) -> Decision:
    budgets = [decode(record.document) for record in registry.store.list(f"{_BUDGETS.store_prefix}{call.namespace}/")]
    dry_run = ["All"] if options.dry_run else []
    return judge_eviction(pod, budgets, eviction, now=registry.now(), dry_run=dry_run)


async def _carry_out(registry: Registry, call: Call, pod: Doc, decision: Decision) -> None:
    """Charge the budget, mark the pod, delete it. Raises Conflict when pod or budget changed since the judgement."""
    if decision.budget is not None:
        charged = decision.budget
        seen = charged["metadata"]["resourceVersion"]

        def charge(budget: Doc) -> Doc:
            if budget["metadata"]["resourceVersion"] != seen:
                raise still_processing(decision.budget_name)
            return charged

        await registry.rewrite(_BUDGETS, call.namespace, charged["metadata"]["name"], charge)
    wanted = deleting.from_document(decision.options, call)
    if not wanted.dry_run:
        marked = await registry.rewrite(
            _PODS, call.namespace, call.name, lambda now: mark_disrupted(now, decision.options, now=registry.now())
        )
        preconditions = decision.options.get("preconditions", {})
        if "resourceVersion" in preconditions:
            version = decode(marked.document)["metadata"]["resourceVersion"]
            decision.options["preconditions"] = {**preconditions, "resourceVersion": version}
            wanted = deleting.from_document(decision.options, call)
    await registry.remove(
        _PODS,
        call.namespace,
        call.name,
        grace_s=wanted.grace_s,
        propagation=wanted.propagation,
        check=wanted.check_of(_PODS),
        dry_run=wanted.dry_run,
    )


async def get_scale(registry: Registry, call: Call) -> Answer:
    """GET …/{name}/scale."""
    doc = decode(registry.read(call.resource, call.namespace, call.name).document)
    return answers.plain(call, scale_of(doc, call.resource))


async def update_scale(registry: Registry, call: Call) -> Answer:
    """PUT …/{name}/scale."""
    scale = _read(call, "autoscaling", "v1", "Scale")
    check_name(call, scale)
    return await _change_scale(registry, call, _options("update", call), lambda old: apply_scale(old, scale))


async def patch_scale(registry: Registry, call: Call) -> Answer:
    """PATCH …/{name}/scale, in any form but apply."""
    schema = schema_of("autoscaling", "v1", "Scale")
    patched = patcher(call.headers.get("Content-Type", ""), call.body, schema)

    def change(old: Doc) -> Doc:
        scale = patched(scale_of(old, call.resource))
        _admit(scale, "autoscaling", "v1", "Scale")
        return apply_scale(old, scale)

    return await _change_scale(registry, call, _options("patch", call), change)


async def _change_scale(registry: Registry, call: Call, options: WriteOptions, change: Callable[[Doc], Doc]) -> Answer:
    written = await registry.change(call.resource, call.namespace, call.name, change, options)
    return answers.plain(call, scale_of(decode(written.document), call.resource))


async def update_finalize(registry: Registry, call: Call) -> Answer:
    """PUT namespaces/{name}/finalize: the one way to take a finalizer out of a namespace's spec."""
    doc = bodies.read_object(call.body, call.headers.get("Content-Type", ""), call.resource, "Ignore", call.warnings)
    check_name(call, doc)
    options = _options("update", call)
    written = await registry.rewrite(
        call.resource, "", call.name, lambda old: finalize(old, doc), dry_run=options.dry_run
    )
    return answers.one(call, written.document, now=registry.clock.now())


def _options(verb: str, call: Call) -> WriteOptions:
    return write_options(verb, call.query, call.headers.get("User-Agent", ""))


def _read(call: Call, group: str, version: str, kind: str) -> Doc:
    """A body of another kind than the resource's own."""
    media = bodies.media_type(call.headers.get("Content-Type", "")) or "application/json"
    doc = bodies.read_document(call.body, media, must_be=kind)
    _admit(doc, group, version, kind)
    return doc


def _admit(doc: Doc, group: str, version: str, kind: str) -> None:
    try:
        admit(schema_of(group, version, kind), doc)
    except Malformed as exc:
        raise BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {exc.message}') from exc


VERBS: dict[tuple[str, str], Callable[[Registry, Call], Awaitable[Answer]]] = {
    ("binding", "create"): create_binding,
    ("eviction", "create"): create_eviction,
    ("scale", "get"): get_scale,
    ("scale", "update"): update_scale,
    ("scale", "patch"): patch_scale,
    ("finalize", "update"): update_finalize,
}
"""(subresource, verb) -> handler."""
