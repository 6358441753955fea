"""What goes over the wire, version v1: rows, collections of them, and what of them changed."""
