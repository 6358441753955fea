"""Texts of others, decoded within a budget: JSON and YAML to plain values, cron schedules, Go's regular expressions."""
