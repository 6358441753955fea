"""Patterns of schemas: Go's regular expressions (RE2), matched in time proportional to the text.

`syntax` reads a pattern as Go reads it, `matching` runs it as a set of states, without ever going back. Python's own
engine takes another language and can be made to search for hours; patterns come from whoever may create definitions,
and texts from whoever may create objects.
"""
