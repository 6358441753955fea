"""The live scheduler: informers feed it, it decides, and bindings run beside the decisions."""
