"""Capacity that is promised and not yet seen in its object: modes `Object` (KEP-5925) and `Ledger`."""
