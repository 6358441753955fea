"""What workloads make of their templates: pods and claims, their names, and how they belong to whoever made them.

Controllers make these objects in a cluster, `whatif` makes them on paper: both by the same functions.
"""
