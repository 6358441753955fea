"""Scheduler configurations in one line, for tests: the default profile with StorageCapacity's settings.

storage_configuration(reservation="Ledger", poolFit="Guaranteed")
"""

from __future__ import annotations


def storage_configuration(**args: str) -> str:
    """A KubeSchedulerConfiguration whose one profile has these StorageCapacityArgs, spelt as in files."""
    told = ", ".join(f"{name}: {value}" for name, value in args.items())
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- schedulerName: default-scheduler\n"
        "  pluginConfig:\n"
        f"  - {{name: StorageCapacity, args: {{{told}}}}}\n"
    )
