"""What a program serves beside its work: TLS, filtered metrics, and profiles of itself."""
