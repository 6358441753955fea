"""What makes the parts of documents legal that several kinds have: pure rules over JSON, in upstream's words.

A rule takes a document (or a part of it with its path) and returns a list of `FieldError`; it never raises, reads no
clock and asks nobody. From the ground up: `objects.names` says what a legal name is, `metadata` judges what all kinds
share, `selectors`, `resources`, `volume_sources` and `addresses` judge parts that many kinds contain, and
`documents/kinds` has the rules of each kind. Every message is read by people who know Kubernetes' own, so wording,
field path and order are upstream's, odd spellings included.
"""
