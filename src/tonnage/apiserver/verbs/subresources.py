"""The subresources with rules of their own: binding, eviction, scale, finalize.

Each rule is a pure function of `documents`. `status` is an ordinary update with another strategy method, see
`Registry.change`. Our nodes run no containers: `refuse_container_request` answers kubectl's logs, exec, attach,
port-forward and proxy.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tonnage.apiserver import bodies, event_loop, requests, responses
from tonnage.apiserver.registry import Change, Registry
from tonnage.apiserver.requests import Call, Location, Response, WriteOptions, write_options
from tonnage.apiserver.stored_documents import served
from tonnage.apiserver.verbs import patching, reading, writing
from tonnage.documents import admission, subresources
from tonnage.documents.admit import Malformed, admit
from tonnage.documents.kinds import pod_disruption_budget as budgets
from tonnage.documents.kinds.namespace import finalize
from tonnage.documents.schema import schema_of_resource
from tonnage.errors import ApiError, BadRequest, Conflict
from tonnage.objects.document import Doc, decode, dig
from tonnage.objects.resources import BINDINGS, BY_PLURAL, EVICTIONS, SCALES, Resource

_PODS = BY_PLURAL["", "pods"]
_NODES = BY_PLURAL["", "nodes"]
_BUDGETS = BY_PLURAL["policy", "poddisruptionbudgets"]
_EVICTION_TRIES = 20
"""Upstream's number. A failed try means that another eviction, or the budget's controller, was faster."""


class _BudgetMoved(Exception):
    """The budget was written since it was judged: judge again."""


_DONE: Doc = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The answer of a subresource that changed another object."""


async def create_binding(registry: Registry, call: Call) -> Response:
    """POST pods/{name}/binding, or bindings: the scheduler's decision becomes the pod's node."""
    options = write_options(call)
    binding = await _read(registry, call, BINDINGS, options)
    name = call.at.name or dig(binding, "metadata", "name") or ""
    subresources.validate_binding(binding, name)
    node = registry.store.get(_NODES.key("", dig(binding, "target", "name") or ""))
    admission.carry_topology(binding, decode(node.document) if node is not None else None)

    def bound(pod: Doc) -> Doc:
        return subresources.bind(pod, binding, registry.gates, now=registry.now())

    await registry.rewrite(Location(_PODS, call.at.namespace, name), bound, dry_run=options.dry_run)
    return responses.of_document(call, _DONE, 201)


async def create_eviction(registry: Registry, call: Call) -> Response:
    """POST pods/{name}/eviction: a deletion that asks the pod's disruption budget first."""
    options = write_options(call)
    eviction = await _read(registry, call, EVICTIONS, options)
    budgets.validate_eviction(eviction, call.at.name)
    for tries_left in reversed(range(_EVICTION_TRIES)):
        pod = decode(registry.read(call.at).document)
        decision = await _judge(registry, call, pod, eviction, options)
        try:
            await _carry_out(registry, call, decision)
            break
        except _BudgetMoved:
            if not tries_left:
                raise budgets.still_processing(decision.budget_name) from None
        except Conflict:
            if decision.on_conflict is budgets.OnConflict.TRY_LATER:
                raise budgets.still_processing(decision.budget_name) from None
            if decision.on_conflict is budgets.OnConflict.FAIL or not tries_left:
                raise
    return responses.of_document(call, _DONE, 201)


async def _judge(
    registry: Registry, call: Call, pod: Doc, eviction: Doc, options: WriteOptions
) -> budgets.EvictionDecision:
    documents = [record.document for record in registry.store.list(f"{_BUDGETS.store_prefix}{call.at.namespace}/")]
    dry_run = ["All"] if options.dry_run else []

    def judged() -> budgets.EvictionDecision:
        found = [decode(document) for document in documents]
        return budgets.judge_eviction(pod, found, eviction, now=registry.now(), dry_run=dry_run)

    return await registry.work(event_loop.is_large(*documents), judged)


async def _carry_out(registry: Registry, call: Call, decision: budgets.EvictionDecision) -> None:
    """Charge the budget, mark the pod, delete it. Raises Conflict or _BudgetMoved when the decision is outdated."""
    wanted = writing.from_document(decision.options, [])
    if decision.budget is not None:
        charged = decision.budget
        seen = charged["metadata"]["resourceVersion"]

        def charge(budget: Doc) -> Doc:
            if budget["metadata"]["resourceVersion"] != seen:
                raise _BudgetMoved
            return charged

        await registry.rewrite(Location(_BUDGETS, call.at.namespace, charged["metadata"]["name"]), charge)
    if not wanted.dry_run:
        marked = await registry.rewrite(
            call.at, lambda pod: budgets.mark_disrupted(pod, decision.options, now=registry.now())
        )
        if wanted.resource_version is not None:
            wanted = replace(wanted, resource_version=decode(marked.document)["metadata"]["resourceVersion"])
    await wanted.remove(registry, call.at)


async def get_scale(registry: Registry, call: Call) -> Response:
    doc = decode(registry.read(call.at).document)
    return _respond_scale(call, doc)


async def update_scale(registry: Registry, call: Call) -> Response:
    options = write_options(call)
    scale = await _read(registry, call, SCALES, options)
    writing.check_name(call, scale)
    return await _change_scale(
        registry, call, options, lambda old: subresources.apply_scale(old, scale, call.at.resource)
    )


async def patch_scale(registry: Registry, call: Call) -> Response:
    """PATCH …/{name}/scale, in any form but apply."""
    is_large = bodies.is_large(call.body, call.content_type)
    patch = await registry.work(is_large, lambda: patching.read_patch(call))
    schema = schema_of_resource(SCALES)

    def change(old: Doc) -> Doc:
        scale = patch.patched(schema, subresources.scale_of(old, call.at.resource, must_have=False))
        try:
            admit(schema, scale)
        except Malformed as exc:
            raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {exc.message}') from exc
        writing.check_name(call, scale)
        return subresources.apply_scale(old, scale, call.at.resource)

    return await _change_scale(registry, call, write_options(call), change, is_large=is_large)


async def _change_scale(
    registry: Registry, call: Call, options: WriteOptions, change: Change, *, is_large: bool = False
) -> Response:
    written = await registry.change(call.at, change, options, is_large=is_large)
    return _respond_scale(call, decode(written.document))


def _respond_scale(call: Call, doc: Doc) -> Response:
    resource = call.at.resource
    return responses.of_document(call, subresources.scale_of(served(resource, doc), resource))


async def update_finalize(registry: Registry, call: Call) -> Response:
    """PUT namespaces/{name}/finalize: the only way to remove a finalizer from a namespace's spec."""
    options = write_options(call)
    doc = await _read(registry, call, call.at.resource, options)
    writing.check_name(call, doc)

    def change(old: Doc) -> Doc:
        meant = {field: doc["metadata"].get(field, "") for field in ("uid", "resourceVersion")}
        changed = finalize(old, doc)
        return {**changed, "metadata": {**changed["metadata"], **{key: value for key, value in meant.items() if value}}}

    written = await registry.change(call.at, change, options, is_put=True)
    return await reading.respond(registry, call, written.document)


async def _read(registry: Registry, call: Call, kind: Resource, options: WriteOptions) -> Doc:
    """A body, mostly of another kind than the resource's, in the URL's namespace."""
    doc = await writing.read_body(registry, call, options, kind)
    if kind.namespaced and dig(doc, "metadata", "namespace") not in (None, "", call.at.namespace):
        raise requests.wrong_namespace()
    return doc


VERBS: dict[tuple[str, str], Callable[[Registry, Call], Awaitable[Response]]] = {
    ("binding", "create"): create_binding,
    ("eviction", "create"): create_eviction,
    ("scale", "get"): get_scale,
    ("scale", "update"): update_scale,
    ("scale", "patch"): patch_scale,
    ("finalize", "update"): update_finalize,
}
"""(subresource, verb) -> handler."""


_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/(log|exec|attach|portforward|proxy)(?:/.*)?")
_NO_CONTAINERS = {
    "log": "there are no logs to show",
    "exec": "there is nothing to run a command in",
    "attach": "there is nothing to attach to",
    "portforward": "nothing listens on a port",
    "proxy": "nothing listens on a port",
}


class NotImplementedHere(ApiError, code=501, reason=""):
    """A request that this server does not and will not support."""


def refuse_container_request(registry: Registry, path: str) -> None:
    """Raises NotImplementedHere if the path is about a pod's containers, NotFound if there is no such pod."""
    found = _PATH.fullmatch(path)
    if found is None:
        return
    namespace, name, asked = found.groups()
    registry.read(Location(_PODS, namespace, name))
    raise NotImplementedHere(
        f'pods "{name}": nodes of this cluster run no containers, so {_NO_CONTAINERS[asked]}; '
        f'"kubectl describe pod {name} -n {namespace}" shows its volumes, conditions and events',
        kind="pods",
        name=name,
    )
