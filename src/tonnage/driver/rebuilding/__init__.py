"""The driver's half of KEP-5925: volumes of a node that takes no more pods may move, and say where they are."""
