"""What TAB shows: the words of commands and flags, and the values that a cluster, files or our own tables know.

Nothing here may fail or keep a person waiting: what cannot be told within a second is not told.
"""
