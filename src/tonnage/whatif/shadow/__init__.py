"""`shadow`: decide along with the scheduler of a live cluster, write nothing, and say where the two differ."""
