"""What every namespace of a cluster has: a service account, the certificate of the API server's authority."""
