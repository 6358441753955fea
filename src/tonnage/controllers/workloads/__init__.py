"""Controllers that own pods (ReplicaSet, Deployment, StatefulSet) and the disruption budgets over them."""
