"""The driver's half of KEP-5925: volumes of a node out of use may move, and say where they are."""
