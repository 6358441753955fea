"""What is deleted because of something else: dependents of deleted owners, the content of deleted namespaces."""
