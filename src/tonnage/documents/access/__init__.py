"""Users, the attributes of a request, and the rules of RBAC: pure functions over documents."""
