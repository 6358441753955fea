"""A pod's volumes: its claims, existing volumes, capacity objects and their pools, and what is promised of them."""
