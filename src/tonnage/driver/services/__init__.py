"""The CSI services of the driver: gRPC calls in, fields read and checked, answers out."""
