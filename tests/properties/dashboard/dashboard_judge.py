"""What the dashboard should show, worked out slowly and plainly from documents: nothing is remembered or looked up.

By Kubernetes' own rules and the laws of volumes that are rebuilt, not by the dashboard's modules. `findings` gives what
is wrong about rows, in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tonnage.driver.node_pools import PoolId
from tonnage.objects.codec import to_doc
from tonnage.objects.meta import Object
from tonnage.quantity import Quantity

Doc = dict[str, Any]
SELECTED, TARGET = "volume.kubernetes.io/selected-node", "tonnage.dev/rebuild-target"
BOUND = "pv.kubernetes.io/bind-completed"
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
ENDED = ("Succeeded", "Failed")


def key_of(doc: Doc) -> str:
    meta = doc["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]


def number(quantity: Any) -> int:
    return Quantity.parse(str(quantity)).value()


def holds(requirement: Doc, labels: Mapping[str, str]) -> bool:
    """One requirement of a selector on labels."""
    value, values = labels.get(requirement["key"]), requirement.get("values", [])
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise AssertionError(requirement)


class Judge:
    """A cluster as documents by kind and key."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.docs: dict[str, dict[str, Doc]] = {}
        for each in objects:
            doc = to_doc(each)
            self.docs.setdefault(type(each).__name__, {})[key_of(doc)] = doc

    def all(self, kind: str) -> dict[str, Doc]:
        return self.docs.get(kind, {})

    def living(self) -> dict[str, Doc]:
        return {key: pod for key, pod in self.all("Pod").items() if pod.get("status", {}).get("phase") not in ENDED}

    # -- volumes ------------------------------------------------------------------------------------------------------

    def claims_of(self, pod: Doc) -> list[str]:
        space = pod["metadata"]["namespace"]
        named = [each.get("persistentVolumeClaim", {}).get("claimName") for each in pod["spec"].get("volumes", [])]
        return [f"{space}/{name}" for name in named if name]

    def volume_of(self, claim: Doc) -> Doc | None:
        """The volume that a claim and the volume itself agree on."""
        found = self.all("PersistentVolume").get(claim["spec"].get("volumeName", ""))
        owner = (found or {}).get("spec", {}).get("claimRef")
        if found is None:
            return None
        if owner is None:  # the first that says it has it gets it
            named = [
                key
                for key, each in self.all("PersistentVolumeClaim").items()
                if each["spec"].get("volumeName") == key_of(found) and BOUND in each["metadata"].get("annotations", {})
            ]
            return found if key_of(claim) == min(named, default="") else None
        is_its = f"{owner['namespace']}/{owner['name']}" == key_of(claim)
        return found if is_its and owner.get("uid", "") in ("", claim["metadata"]["uid"]) else None

    def admitted(self, volume: Doc) -> set[str] | None:
        """Nodes that a volume's affinity admits, by their labels; None for every node."""
        required = volume["spec"].get("nodeAffinity", {}).get("required")
        if required is None:
            return None
        found = set()
        for name, node in self.all("Node").items():
            labels = node["metadata"].get("labels", {})
            for term in required.get("nodeSelectorTerms", []):
                asked = term.get("matchExpressions", [])
                if asked and all(holds(each, labels) for each in asked):
                    found.add(name)
        return found

    def state_of(self, claim: Doc) -> str | None:
        """None where it depends on what has not been decided between claim and volume yet."""
        notes = claim["metadata"].get("annotations", {})
        if BOUND in notes and claim["spec"].get("volumeName"):
            volume = self.volume_of(claim)
            if volume is None:
                return "lost"
            is_free = volume["spec"].get("nodeAffinity", {}).get("required") is None
            is_marked = bool(notes.get(SELECTED)) and notes.get(TARGET) == notes.get(SELECTED)
            return "moving" if is_free and is_marked else "bound"
        if notes.get(SELECTED):
            return "making"
        named = any(
            each["spec"].get("claimRef", {}).get("name") == claim["metadata"]["name"]
            for each in self.all("PersistentVolume").values()
        )
        return None if named or claim["spec"].get("volumeName") else "waiting"

    def has_volume(self, key: str) -> bool:
        """Whether a row stands for a volume: a claim may name one that is another's, or is gone."""
        claim = self.all("PersistentVolumeClaim").get(key)
        return claim is None or not claim["spec"].get("volumeName") or self.volume_of(claim) is not None

    @staticmethod
    def is_attached(attachment: Doc) -> bool:
        return bool(attachment.get("status", {}).get("attached"))

    def attachments(self, volume: str) -> list[Doc]:
        found = self.all("VolumeAttachment").values()
        return [each for each in found if each["spec"]["source"].get("persistentVolumeName") == volume]

    def volume_findings(self, rows: Mapping[str, Doc]) -> Iterator[str]:
        claims, volumes = self.all("PersistentVolumeClaim"), self.all("PersistentVolume")
        yield from (f"{key} is not shown" for key in claims.keys() - rows.keys())
        shown = [row["volume"] for key, row in rows.items() if row.get("volume") and self.has_volume(key)]
        yield from (f"{name} is shown {shown.count(name)} times" for name in volumes if shown.count(name) != 1)
        for key, row in rows.items():
            claim = claims.get(key)
            volume = volumes.get(row.get("volume", ""))
            if claim is None:
                if volume is None or key != row["volume"]:
                    yield f"{key} is no claim, and no volume"
                    continue
                if row["state"] != ("released" if volume["spec"].get("claimRef") else "available"):
                    yield f"{key} is {row['state']}"
            else:
                expected = self.state_of(claim)
                if expected is not None and row.get("state", "waiting") != expected:
                    yield f"{key} is {row.get('state')}, not {expected}"
                users = sorted(name for name, pod in self.living().items() if key in self.claims_of(pod))
                if row.get("pods", []) != users:
                    yield f"{key} is used by {users}, not {row.get('pods')}"
                if row.get("state") == "moving" and row["target"] != claim["metadata"]["annotations"][SELECTED]:
                    yield f"{key} goes to {row['target']}"
            if volume is not None and self.has_volume(key):
                yield from self._place_findings(key, row, volume)

    def _place_findings(self, key: str, row: Doc, volume: Doc) -> Iterator[str]:
        if row.get("bytes", 0) != number(volume["spec"]["capacity"]["storage"]):
            yield f"{key} has {row.get('bytes')} bytes"
        modes = (self.all("PersistentVolumeClaim").get(key) or volume)["spec"].get("accessModes", [])
        if bool(row.get("shared")) != bool({"ReadWriteMany", "ReadOnlyMany"} & set(modes)):
            yield f"{key} is shared: {row.get('shared')}, with {modes}"
        there = {each["spec"]["nodeName"] for each in self.attachments(row["volume"]) if self.is_attached(each)}
        if row.get("state") != "making" and row.get("attached", []) != sorted(there):
            yield f"{key} is attached to {sorted(there)}, not {row.get('attached')}"
        admitted = self.admitted(volume)
        if admitted is None or row.get("pool", -1) >= 0:
            return  # it may be anywhere, or the driver itself says where it is
        node = row.get("node", "")
        # One that no node reaches any more is shown where it was left.
        if admitted and row.get("state") not in ("making", "moving") and node in self.all("Node").keys() - admitted:
            yield f"{key} is shown on {node}, which its affinity does not admit: {admitted}"
        reach = set(row.get("nodes", []))
        if reach & self.all("Node").keys() - admitted:
            yield f"{key} is shown within reach of {reach}, not {admitted}"
        terms = volume["spec"]["nodeAffinity"]["required"].get("nodeSelectorTerms", [])
        names = [
            each["values"]
            for term in terms[: 1 if len(terms) == 1 else 0]
            for each in term.get("matchExpressions", [])
            if each["key"] == "kubernetes.io/hostname" and each["operator"] == "In"
        ]
        if len(names) == 1 and len(names[0]) == 1 and admitted == set(names[0]) and node != names[0][0]:
            yield f"{key} is on {names[0][0]}, not {node}"

    # -- nodes --------------------------------------------------------------------------------------------------------

    def slots(self, node: str, pods: Iterable[Doc]) -> dict[str, int]:
        """Different volumes by driver, as NodeVolumeLimits counts them: mounted by pods, or attached."""
        found: set[tuple[str, str]] = set()
        volumes, classes = self.all("PersistentVolume"), self.all("StorageClass")
        for pod in pods:
            for key in self.claims_of(pod):
                claim = self.all("PersistentVolumeClaim").get(key)
                if claim is None:
                    continue
                volume = volumes.get(claim["spec"].get("volumeName", ""))
                of_class = classes.get(claim["spec"].get("storageClassName", ""))
                if volume is not None:
                    if source := volume["spec"].get("csi"):
                        found.add((source["driver"], source["volumeHandle"]))
                elif of_class is not None:
                    found.add((of_class["provisioner"], f"claim {key}"))
        for each in self.all("VolumeAttachment").values():
            volume = volumes.get(each["spec"]["source"]["persistentVolumeName"])
            if each["spec"]["nodeName"] == node and volume is not None and volume["spec"].get("csi"):
                found.add((each["spec"]["attacher"], volume["spec"]["csi"]["volumeHandle"]))
        return {driver: sum(1 for one, _ in found if one == driver) for driver, _ in found}

    def node_findings(self, rows: Mapping[str, Doc], sent: Mapping[str, str]) -> Iterator[str]:
        """`sent` are nodes by uid of pods that the scheduler has sent there."""
        for name, node in self.all("Node").items():
            row = rows.get(name)
            if row is None:
                yield f"{name} is not shown"
                continue
            labels = node["metadata"].get("labels", {})
            zone = next((labels[each] for each in ZONES if each in labels), "")
            told = (row.get("zone", ""), row.get("cordoned", False), row.get("gone", False))
            if told != (zone, node.get("spec", {}).get("unschedulable", False), False):
                yield f"{name} is told as {told}"
            pods = [
                pod
                for pod in self.living().values()
                if name == (pod["spec"].get("nodeName") or sent.get(pod["metadata"]["uid"], ""))
            ]
            if row.get("pods", 0) != len(pods):
                yield f"{name} has {len(pods)} pods, not {row.get('pods')}"
            used = self.slots(name, pods)
            csi_node = self.all("CSINode").get(name, {"spec": {}})
            limits = {
                each["name"]: each.get("allocatable", {}).get("count")
                for each in csi_node.get("spec", {}).get("drivers", [])
            }
            expected = {each: (used.get(each, 0), limits.get(each)) for each in used.keys() | limits.keys()}
            slots = {each["driver"]: (each.get("used", 0), each.get("limit")) for each in row.get("slots", [])}
            if slots != expected:
                yield f"{name} has slots {expected}, not {slots}"
        for name in rows.keys() - self.all("Node").keys():
            if not rows[name].get("gone"):
                yield f"{name} is shown, and not there"

    # -- capacities ---------------------------------------------------------------------------------------------------

    def capacity_findings(self, rows: Mapping[str, Doc], held: Iterable[Any]) -> Iterator[str]:
        objects = self.all("CSIStorageCapacity")
        if rows.keys() != objects.keys():
            yield f"capacities {rows.keys() ^ objects.keys()}"
        listed = list(held)
        for key, doc in objects.items():
            row, topology = rows[key], doc.get("nodeTopology")
            nodes = [
                name
                for name, node in sorted(self.all("Node").items())
                if topology is not None and self._reaches(topology, node["metadata"].get("labels", {}))
            ]
            if (row.get("nodes", []), row.get("nodeCount", 0)) != (nodes, len(nodes)):
                yield f"{key} reaches {nodes}, not {row.get('nodes')}"
            pools = [number(each) for each in doc.get("availableCapacities", [])]
            figures = pools or [number(doc[each]) for each in ("capacity", "maximumVolumeSize") if each in doc][:1]
            if row.get("pools", []) != figures:
                yield f"{key} has {figures}, not {row.get('pools')}"
            mine = [(each.pod, each.bytes, str(each.mode)) for each in listed if each.capacity == key]
            told = [(each["pod"], each.get("bytes", 0), each["mode"]) for each in row.get("reserved", [])]
            if told != mine:
                yield f"{key} keeps back {mine}, not {told}"
            if any(mode == "Object" for _, _, mode in mine):
                left = 0
            elif "capacity" not in doc and not pools:
                left = None
            else:
                left = max(0, sum(figures) - sum(amount for _, amount, _ in mine))
            if row.get("left") != left:
                yield f"{key} has {left} left, not {row.get('left')}"

    @staticmethod
    def _reaches(topology: Doc, labels: Mapping[str, str]) -> bool:
        listed = all(labels.get(name) == value for name, value in topology.get("matchLabels", {}).items())
        return listed and all(holds(each, labels) for each in topology.get("matchExpressions", []))


def pool_findings(rows: Mapping[str, Doc], volumes: Mapping[str, Doc], contents: Any) -> Iterator[str]:
    """What lies in a driver's pools adds up, and rows of nodes and volumes agree on where it is."""
    for node, sizes in contents.sizes.items():
        pools = rows.get(node, {}).get("pools", [])
        for index, size in enumerate(sizes if node in rows else ()):
            pool, place = pools[index], PoolId(node, index)
            lying = [each for each in contents.volumes.values() if each.place == place]
            coming = [each for each in contents.volumes.values() if each.arriving == place != each.place]
            used = sum(each.bytes for each in (*lying, *coming))
            used += sum(told.get(place, 0) for told in (contents.snapshots, contents.unknown))
            if (pool["size"], pool.get("free", 0)) != (size, max(0, size - used)):
                yield f"pool {index} of {node} has {size} - {used}, not {pool}"
            for key in pool.get("volumes", []):
                told = (volumes[key].get("node"), volumes[key].get("pool"))
                if told != (node, index):
                    yield f"pool {index} of {node} has {key}, which is in {told}"
            yield from (
                f"{node} awaits {key}, which is not shown" for key in pool.get("arriving", []) if key not in volumes
            )
