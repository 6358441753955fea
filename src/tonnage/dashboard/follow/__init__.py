"""Follows a live cluster: its objects through informers, its scheduler's memory through debug pages."""
