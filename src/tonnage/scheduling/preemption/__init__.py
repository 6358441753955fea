"""Preemption: which pods would have to go for another pod to fit, and where that costs least."""
