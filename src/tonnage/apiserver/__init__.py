"""A Kubernetes API server for one machine: REST in front, the revision log of `tonnage.store` behind."""
