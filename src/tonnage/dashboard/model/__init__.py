"""Turns objects and the scheduler's memory into the rows of the map, the lists and the lanes."""
