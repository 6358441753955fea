"""A live cluster, followed: its objects by informers, what its scheduler knows by its debug pages."""
