"""What every namespace of a cluster has: a service account, the certificate of the API server's authority; and how much
of its quotas is in use."""
