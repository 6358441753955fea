"""The steps of each part of an examination: what is asked in which order. What it means, `contracts/` says."""
