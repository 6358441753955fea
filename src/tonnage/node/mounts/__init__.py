"""The volumes of a node's pods: which to mount where, and staging, publishing, expanding and unmounting them."""
