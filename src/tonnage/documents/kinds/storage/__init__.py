"""The kinds of storage. They keep upstream's paths, the odd ones too: `spec.attachedRequired`, `spec.drivers`."""
