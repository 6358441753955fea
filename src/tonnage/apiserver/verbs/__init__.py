"""What a client may do, one file a family of verbs.

A verb takes a `Call` and gives a `Response`; the rules stand in `documents`.
"""
