"""The command line of the provisioner: the command, its flags, and gates as external-provisioner spells them."""
