"""The server and the user of a program: kubeconfig files, the pod's own service account, credentials."""
