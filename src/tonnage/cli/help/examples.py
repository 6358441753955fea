"""The examples in the help of each command: lines that work as they stand, with names of your own for what is yours.

A test parses every one of them with the command it stands at.
"""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "apiserver": (
        "tonnage apiserver --data-dir cluster",
        "tonnage apiserver --data-dir cluster --secure-port 0 --event-ttl 10m",
        "tonnage apiserver --data-dir cluster --backup objects.sqlite3",
    ),
    "completion": (
        "source <(tonnage completion bash)",
        "tonnage completion zsh > ~/.zfunc/_tonnage",
        "tonnage completion fish > ~/.config/fish/completions/tonnage.fish",
    ),
    "controllers": (
        "tonnage controllers --kubeconfig cluster/kubeconfig",
        "tonnage controllers --kubeconfig cluster/kubeconfig --controllers '*,-pod-garbage-collector-controller'",
    ),
    "csi-driver": (
        "tonnage csi-driver --endpoint unix:///run/csi/csi.sock --node-id node-1 --pools 3x100Gi --state-dir driver",
        "tonnage csi-driver --endpoint unix:///run/csi/csi.sock --node-id node-1 --node-id node-2"
        " --node-endpoint unix:///run/csi/{node}.sock --pools 2x50Gi --max-volumes 8 --state-dir driver",
    ),
    "csi-driver-quarantine": (
        "tonnage csi-driver-quarantine --state-dir cluster/driver",
        "tonnage csi-driver-quarantine --state-dir cluster/driver --all",
    ),
    "demo": ("tonnage demo",),
    "doctor": (
        "tonnage doctor",
        "tonnage doctor --kubeconfig cluster/kubeconfig -o html > report.html",
        "tonnage doctor -f examples/16-doctor/dump",
    ),
    "drain-preview": (
        "tonnage drain-preview node-1 node-2",
        "tonnage drain-preview --one-by-one -f examples/14-drain-preview/cluster.yaml mill-1 mill-2",
    ),
    "driver-check": (
        "tonnage driver-check --csi-address unix:///run/csi/csi.sock",
        "tonnage driver-check --csi-address unix:///run/csi/csi.sock --parameters type=ssd --fill -o json",
    ),
    "explain": (
        "tonnage explain --pod shop/db-0",
        "tonnage explain --pending",
        "tonnage explain --workload StatefulSet/shop/db -o json",
        "tonnage explain -f examples/02-explain --pod default/db",
    ),
    "fault": (
        "tonnage fault --data-dir cluster list",
        "tonnage fault --data-dir cluster set out-of-space --node node-1",
        "tonnage fault --data-dir cluster clear",
    ),
    "fault set": (
        "tonnage fault --data-dir cluster set out-of-space --node node-1",
        "tonnage fault --data-dir cluster set slow --value 2.5",
    ),
    "fault clear": (
        "tonnage fault --data-dir cluster clear out-of-space --node node-1",
        "tonnage fault --data-dir cluster clear",
    ),
    "fault list": ("tonnage fault --data-dir cluster list -o json",),
    "fit": (
        "tonnage fit --workload StatefulSet/shop/db",
        "tonnage fit -f examples/13-fit/cluster.yaml --template examples/13-fit/kafka.yaml",
        "tonnage fit --template examples/13-fit/kafka.yaml --max 100 -o json",
    ),
    "node": (
        "tonnage node --kubeconfig cluster/kubeconfig --node-name node-1 --root-dir nodes"
        " --csi-address unix:///run/csi/{node}.sock",
    ),
    "node-scaler": (
        "tonnage node-scaler --kubeconfig cluster/kubeconfig --template examples/13-fit/nodes/dense.yaml --max 5",
    ),
    "pools": (
        "tonnage pools --source openebs-lvm",
        "tonnage pools --kubeconfig cluster/kubeconfig --source topolvm",
    ),
    "provisioner": (
        "tonnage provisioner --csi-address unix:///run/csi/csi.sock --kubeconfig cluster/kubeconfig",
        "tonnage provisioner --csi-address unix:///run/csi/csi.sock --enable-capacity --capacity-poll-interval 1m",
    ),
    "replay": ("tonnage replay -f examples/03-replay/cluster.yaml --steps examples/03-replay/steps/burst.yaml",),
    "scheduler": (
        "tonnage scheduler --kubeconfig cluster/kubeconfig",
        "tonnage scheduler --config scheduler.yaml --leader-elect --secure-port 10259",
        "tonnage scheduler --kubeconfig cluster/kubeconfig --feature-gates StorageCapacityScoring=true",
    ),
    "shadow": ("tonnage shadow", "tonnage shadow --kubeconfig cluster/kubeconfig -o json > differences.json"),
    "simulate": (
        "tonnage simulate -f examples/15-simulate/cluster.yaml --scenario examples/15-simulate/scenarios/friday.yaml",
    ),
    "dashboard": (
        "tonnage dashboard --kubeconfig ~/.kube/config",
        "tonnage dashboard --kubeconfig cluster/kubeconfig --port 0",
        "tonnage dashboard --bind 0.0.0.0 --allowed-host storage.example --tls-cert-file tls.crt "
        "--tls-private-key-file tls.key",
    ),
    "status": ("tonnage status --data-dir cluster", "tonnage status --data-dir cluster -o json"),
    "top": ("tonnage top", "tonnage top --kubeconfig cluster/kubeconfig"),
    "up": (
        "tonnage up --data-dir cluster",
        "tonnage up --data-dir cluster --dashboard",
        "tonnage up --data-dir cluster --nodes 5 --pools 3x100Gi -f examples/09-a-database-on-pools",
    ),
    "version": ("tonnage version", "tonnage version -o json"),
}


def examples_of(command: str, program: str = "tonnage") -> str:
    """The lines for the end of a help page, as `program` is called; nothing for a command without examples."""
    lines = [each.replace("tonnage ", f"{program} ", 1) for each in EXAMPLES.get(command, ())]
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else ""
