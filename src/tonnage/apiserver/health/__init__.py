"""How the server and its store are doing: probes, metrics, and whether what is stored can be read."""
