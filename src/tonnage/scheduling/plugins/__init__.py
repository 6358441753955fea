"""The plugins of kube-scheduler, one file each, judging all nodes at once. `engine/profiles.py` knows them by name."""
