"""Server-side apply and `metadata.managedFields`: who owns which field, and what an applied manifest changes."""
