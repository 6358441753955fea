"""The plugins of kube-scheduler, one file each, judging all nodes at once. `registry.py` knows them by name."""
