"""What is left behind and has to go: dependents of deleted owners, pods nobody looks after, namespaces."""
