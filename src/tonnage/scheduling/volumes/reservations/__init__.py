"""Capacity that is promised or reserved but not yet shown by its object: modes `Object` (KEP-5925) and `Ledger`."""
