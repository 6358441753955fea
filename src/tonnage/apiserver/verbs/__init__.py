"""The API verbs, one file per family. A verb takes a `Call` and returns a `Response`; the rules are in `documents`."""
