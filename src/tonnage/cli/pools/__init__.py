"""`tonnage pools` and its flags."""
