"""`tonnage top`: the same rows on a terminal."""
