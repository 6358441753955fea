"""Custom resources on the server: which are served at this moment, and what becomes of their definitions."""
