"""The rules of every kind.

A kind's file has its `Strategy` (`documents/strategy.py`): defaults and validation. Defaults change a document in place
and are idempotent: they run whenever a document is decoded, before validation. Rules that several kinds share stand in
`documents/validation`.
"""
