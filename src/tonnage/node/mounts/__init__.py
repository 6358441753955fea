"""The volumes of a node's pods: what to mount where, staged, published, expanded and taken down again."""
