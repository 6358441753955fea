"""Commands that show a cluster as it changes: a web page, a terminal."""
