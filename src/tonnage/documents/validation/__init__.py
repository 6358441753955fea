"""What makes a document legal: pure rules over whole JSON documents, in upstream's words.

A rule takes a document (or a part of it with its path) and returns a list of `FieldError`; it never raises, reads no
clock and asks nobody. From the ground up: `objects.names` says what a legal name is, `metadata` judges what all kinds
share, `selectors` and `resources` judge the parts many kinds contain, and each of the rest holds one kind or one family
of kinds. Which rules run when is said by the strategies (`documents/strategies`). Every message here is read by people
who know Kubernetes' own, so wording, field path and order are upstream's, odd spellings included.
"""
