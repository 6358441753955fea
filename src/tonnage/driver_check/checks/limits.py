"""NodeGetInfo, and volumes put to use until the node's limit says no."""

from __future__ import annotations

from tonnage.csi.errors import Code
from tonnage.driver_check.answers import CallRefused, CheckedVolume, NodeInfo
from tonnage.driver_check.contracts import limits as contract
from tonnage.driver_check.contracts import volumes as publishing
from tonnage.driver_check.controller_calls import CheckedNode, tried
from tonnage.driver_check.conversation import Conversation
from tonnage.driver_check.results import CheckVerdict, Results, failed, skipped

_USED = ("limit-is-a-total", "publish-idempotent", "publish-unknown", "limit-enforced")
_ALL = ("limit-sane", "limit-stable", *_USED)


async def check(talk: Conversation, results: Results) -> None:
    for node in talk.nodes:
        results.tell("limit-sane", contract.sane(node.info, has_topology=talk.has_topology))
        results.tell("limit-stable", contract.stable(node.info, await _info(node)))
    home = talk.home_node
    if home is None or talk.cannot_use:
        results.skip(_ALL, talk.cannot_use)
        return
    if not talk.can.create_delete_volume:
        results.skip(_ALL, "the driver does not claim CREATE_DELETE_VOLUME")
        return
    await _one_volume(talk, results, home)
    await _enforced(talk, results, home)


async def _info(node: CheckedNode) -> NodeInfo | CallRefused:
    answer = await tried(node.client.node_info())
    return answer if isinstance(answer, CallRefused) else NodeInfo.of(answer)


async def _one_volume(talk: Conversation, results: Results, node: CheckedNode) -> None:
    made = await talk.create(talk.settings.size_bytes, talk.home)
    if isinstance(made, CallRefused):
        results.skip(_USED, f"no volume could be made: {made}")
        return
    refused = await talk.use(made.volume_id, node)
    if refused is not None:
        results.tell("publish-idempotent", failed(f"a volume could not be put to use on its node: {refused}"))
        results.skip(_USED, "no volume could be put to use")
    else:
        again = await talk.use(made.volume_id, node)
        results.tell("limit-is-a-total", contract.is_a_total(node.info, await _info(node)))
        undone = [await talk.let_go(made.volume_id, node), await talk.let_go(made.volume_id, node)]
        results.tell("publish-idempotent", publishing.undone(again, *undone))
        nobody = await talk.use(f"{talk.settings.prefix}-unknown", node)
        results.tell("publish-unknown", publishing.unknown_refused("an unknown volume", nobody))
        if talk.attaches:
            answer = await talk.use(made.volume_id, node, node_id=f"{talk.settings.prefix}-unknown")
            results.tell("publish-unknown", publishing.unknown_refused("a volume, on an unknown node,", answer))
    await talk.discard([made.volume_id])


async def _enforced(talk: Conversation, results: Results, node: CheckedNode) -> None:
    if results.outcome_of("limit-enforced") is not None:
        return
    limit, before = node.info.limit, await talk.attached_to(node.info.node_id)
    if limit <= 0:
        results.tell("limit-enforced", skipped("the node has no limit"))
        return
    if limit + 1 - before > talk.settings.most_volumes:
        results.tell(
            "limit-enforced", skipped(f"it takes {limit + 1 - before} volumes: say --most-volumes to allow as many")
        )
        return
    results.tell("limit-enforced", await _until_refused(talk, node, limit, before))
    await talk.discard(talk.made.volume_ids)


async def _until_refused(talk: Conversation, node: CheckedNode, limit: int, before: int) -> CheckVerdict:
    answers: list[CallRefused | None] = []
    for _ in range(limit + 1 - before):
        made = await talk.create(talk.settings.size_bytes, talk.home)
        if not isinstance(made, CheckedVolume):
            return skipped(f"there is no room for {limit + 1 - before} volumes ({made}): say a smaller --size")
        answers.append(await talk.use(made.volume_id, node))
        if answers[-1] is not None:
            break
    return contract.enforced(limit, before, answers or [CallRefused(Code.RESOURCE_EXHAUSTED)])
