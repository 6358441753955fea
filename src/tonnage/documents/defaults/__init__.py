"""What a server fills in when a document does not say it, kind by kind.

Each function changes a document in place, and running it twice is running it once: it is called whenever a document is
decoded, before anything judges it. A default that depends on other objects (the default StorageClass) is a function of
those objects; admission gathers them.
"""
