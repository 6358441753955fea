"""Whatever an object said before, and whatever the server does with the field of pools: two writes make it true.

The server is modelled by the one thing that matters here: whether it keeps `availableCapacities` for objects that have
none yet. One whose gate was turned off keeps it for those that do.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tonnage.documents.patches.json_patch import merge_patch
from tonnage.objects import codec
from tonnage.objects.document import Doc
from tonnage.objects.meta import OwnerReference
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, CSIStorageCapacity
from tonnage.provisioner.capacity.objects import ReportedCapacity, patch_for
from tonnage.scheduling.volumes.capacity.pools import listed_pools
from tonnage.testing.storage_builders import capacity

GI = 1 << 30
OWNER = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="driver", uid="u1", controller=True)
OTHER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "older", "uid": "u0"}

sizes = st.integers(0, 5).map(lambda number: f"{number}Gi")
pools = st.lists(sizes, max_size=3)
reports = st.builds(
    lambda told, total, maximum: ReportedCapacity(
        sum(told) * GI or total * GI, maximum, tuple(each * GI for each in told)
    ),
    st.lists(st.integers(0, 5), max_size=3),
    st.integers(0, 5),
    st.none() | st.integers(0, 5).map(lambda number: number * GI),
)
pool_texts = st.none() | pools.map(",".join) | st.just("nonsense")
owners = st.sampled_from([[], [OTHER], [{**OTHER, "controller": True}], [codec.to_doc(OWNER)]])


@st.composite
def objects(draw: st.DrawFn) -> CSIStorageCapacity:
    """An object in any state that somebody may have left it in."""
    text = draw(pool_texts)
    metadata = {
        "annotations": {"theirs": "x", **({AVAILABLE_CAPACITIES: text} if text is not None else {})},
        "ownerReferences": draw(owners),
    }
    free, maximum = draw(st.none() | sizes), draw(st.none() | sizes)
    return capacity("pools", "node-1", free, pools=draw(pools), maximum=maximum, metadata=metadata)


def stored(found: CSIStorageCapacity, patch: Doc, *, keeps_field: bool) -> CSIStorageCapacity:
    """What the server has after a patch."""
    doc = merge_patch(codec.to_doc(found), patch)
    if not keeps_field and not found.available_capacities:
        doc.pop("availableCapacities", None)
    return codec.convert(CSIStorageCapacity, doc)


@given(objects(), reports, st.booleans(), st.booleans())
def test_two_writes_make_any_object_say_the_answer(
    found: CSIStorageCapacity, reported: ReportedCapacity, keeps_field: bool, is_dropped: bool
):
    for _ in range(2):
        patch = patch_for(found, reported, owner=OWNER, is_dropped=is_dropped)
        offers_field = bool(reported.pools) and not found.available_capacities and not is_dropped
        found = stored(found, patch, keeps_field=keeps_field)
        if offers_field:
            is_dropped = not found.available_capacities
        # At no moment do other pools stand there than those that were told of; none, at most until the second write.
        assert listed_pools(found) in ((), tuple(sorted(reported.pools, reverse=True)))
    assert patch_for(found, reported, owner=OWNER, is_dropped=is_dropped) == {}
    assert listed_pools(found) == tuple(sorted(reported.pools, reverse=True))
    assert found.capacity is not None and found.capacity.value() == reported.capacity_bytes
    maximum = found.maximum_volume_size
    assert (None if maximum is None else maximum.value()) == reported.maximum_bytes
    assert not (found.available_capacities and AVAILABLE_CAPACITIES in found.metadata.annotations)
    assert found.metadata.annotations["theirs"] == "x"
    assert [each.uid for each in found.metadata.owner_references if each.controller] == ["u1"]


@given(objects(), reports, st.booleans())
def test_a_pool_list_that_stands_there_is_never_taken_away_to_be_written_elsewhere(
    found: CSIStorageCapacity, reported: ReportedCapacity, is_dropped: bool
):
    told = tuple(sorted(reported.pools, reverse=True))
    if told and listed_pools(found) == told:
        after = stored(found, patch_for(found, reported, owner=None, is_dropped=is_dropped), keeps_field=False)
        assert listed_pools(after) == told
