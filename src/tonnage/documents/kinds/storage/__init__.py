"""The kinds of storage, with upstream's paths, odd ones included: `spec.attachedRequired`, `spec.drivers`."""
