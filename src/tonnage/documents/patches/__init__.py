"""The three patches a client may send: JSON patch, JSON merge patch and strategic merge patch."""
