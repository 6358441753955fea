"""Who asks, and may they? Users, what a request is about, and the rules of RBAC: pure functions over documents."""
