"""The shape of every JSON answer, as classes. A field with a default may be absent; all others are always there.

`schemas.py` makes JSON Schema of them. Answers may gain fields; tests/test_json_answers.py holds real answers against the
schemas and, so that no field goes untold, against the names that stand here.
"""
