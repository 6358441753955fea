"""The CSI services of the driver: they read and check requests, call the driver, and answer."""
