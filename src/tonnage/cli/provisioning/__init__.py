"""The command line of the provisioner: the command, and its flags."""
