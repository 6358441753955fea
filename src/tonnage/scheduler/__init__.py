"""The live scheduler: informers in, decisions out, bindings beside them."""
