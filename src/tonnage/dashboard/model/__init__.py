"""Rows from objects: what the map, the lists and the lanes show, worked out from what the API and the scheduler say."""
