"""Recordings: an engine that writes down everything done to it, and the repetition of a recording."""
