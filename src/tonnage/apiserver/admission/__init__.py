"""What the server hands to admission: the objects it looks at, and the quotas it charges."""
