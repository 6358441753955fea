"""`simulate --recording`: what a live scheduler wrote down by --record, decided again, and by other policies."""
