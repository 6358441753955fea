"""The page's questions about a cluster: why a pod waits, what-if questions, and replays of files."""
