"""Namespaces: emptied when they are deleted, given a service account and the server's CA, and their quotas counted."""
