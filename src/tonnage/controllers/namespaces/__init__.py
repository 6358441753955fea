"""Namespaces: empty them when they are deleted, give them a service account and the server's CA, count their quotas."""
