"""Who may do what on this server: RBAC over what the store has, and what a cluster begins with of it."""
