"""Which server a program talks to and as whom: kubeconfig files, the pod's own service account, credentials."""
