"""How a request reaches the server: TLS, a pool of connections, streams, and what goes wrong on the way."""
