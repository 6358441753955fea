"""What a program serves beside its work: TLS, the choice of metrics, and profiles of itself."""
