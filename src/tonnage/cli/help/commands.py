"""Every command: its group in the help, where it is, and what it says about itself in one line.

The lines stand here once more so that `tonnage --help` and TAB need not load the commands, which takes a second; a test
holds them against the commands' own words.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class CommandEntry(NamedTuple):
    """One command: `module:name` below `tonnage.cli`, and its first line of help."""

    where: str
    help: str


GROUPS: Final[dict[str, dict[str, CommandEntry]]] = {
    "Run a cluster": {
        "up": CommandEntry(
            "up:up",
            "Run a cluster: API server, controllers, scheduler, provisioner, nodes, and a CSI driver with pools on"
            " each.",
        ),
        "status": CommandEntry(
            "status:status",
            "Show a running `tonnage up` cluster: its programs, its nodes, their pools, and what is made to go wrong.",
        ),
        "dashboard": CommandEntry(
            "dashboard.dashboard:dashboard",
            "Serve a web page that shows a cluster's storage as it changes: pools, claims, who waits and why.",
        ),
        "top": CommandEntry(
            "dashboard.top:top",
            "Show a cluster's storage in a terminal as it changes: pools, claims, who waits and why, what happens.",
        ),
        "fault": CommandEntry(
            "fault:fault",
            "Make things go wrong on request: the driver and the nodes of a cluster look here at each step.",
        ),
        "demo": CommandEntry(
            "demo:demo",
            "Play the enhancements' stories on fresh embedded clusters; exit 0 only if all of them hold.",
        ),
    },
    "Scheduling": {
        "scheduler": CommandEntry(
            "scheduler:scheduler",
            "Place pods on any Kubernetes cluster, beside its scheduler or instead of it.",
        ),
        "explain": CommandEntry("explain:explain", "Tell which node a pod goes to and why, or why none."),
        "shadow": CommandEntry(
            "shadow:shadow",
            "Decide along with the scheduler of a live cluster, and say where the two differ and why.",
        ),
        "doctor": CommandEntry(
            "doctor:doctor", "Tell what of a cluster Tonnage can use, what it would change, and what to set."
        ),
    },
    "What if": {
        "fit": CommandEntry("fit:fit", "Tell how many more replicas of a workload fit, by node and zone."),
        "drain-preview": CommandEntry("drain_preview:drain_preview", "Tell what a drain of these nodes would do."),
        "simulate": CommandEntry(
            "simulate:simulate",
            "Play a scenario on virtual time: who is placed, who waits, which volumes are refused, how full disks"
            " become.",
        ),
        "replay": CommandEntry(
            "replay:replay",
            "Decide about pods one after the other, with the scheduler's memory, on virtual time.",
        ),
    },
    "Storage and drivers": {
        "provisioner": CommandEntry(
            "provisioning.provisioner:provisioner",
            "Make, delete and expand the volumes of one CSI driver, and publish how much room it has.",
        ),
        "pools": CommandEntry(
            "pools.pools:pools", "Tell the pools of drivers that report one number, for as long as it runs."
        ),
        "csi-driver": CommandEntry(
            "driver.csi_driver:csi_driver", "Serve volumes from the pools of one or more nodes, over CSI."
        ),
        "csi-driver-quarantine": CommandEntry(
            "driver.csi_driver_quarantine:csi_driver_quarantine",
            "Show what lies in a driver's pools without a record, or move it out of them.",
        ),
        "driver-check": CommandEntry(
            "driver.driver_check:driver_check",
            "Check a CSI driver against the contracts that KEP-5925 and KEP-4876 rest on.",
        ),
    },
    "Other programs of a cluster": {
        "apiserver": CommandEntry(
            "apiserver:apiserver",
            "Serve the Kubernetes API from one folder: kubectl, client-go and the Python client work on it.",
        ),
        "controllers": CommandEntry(
            "controllers:controllers",
            "Bind claims, attach volumes, run workloads, watch over nodes, and clear away what is left over.",
        ),
        "node": CommandEntry(
            "node:node",
            "Be nodes: register them, keep their attach limits true, mount the volumes of their pods over CSI.",
        ),
        "node-scaler": CommandEntry(
            "node_scaler:node_scaler",
            "Add nodes for pods that cannot be placed, and remove them when nobody needs them: for demo clusters.",
        ),
    },
    "Other": {
        "completion": CommandEntry(
            "completion.command:completion", "Print what makes a shell complete commands, flags and their values."
        ),
        "version": CommandEntry(
            "version:version",
            "Print the version, the Python it runs on, and the Kubernetes release whose behaviour it follows.",
        ),
    },
}
"""In the order in which help shows them: what a newcomer wants first stands first."""

INTERNAL: Final = {"forkserver": CommandEntry("forkserver:forkserver", "")}
"""Commands that our own programs start. No help lists them."""
