"""How a request reaches the server: TLS, a pool of connections, streams, and their failures."""
