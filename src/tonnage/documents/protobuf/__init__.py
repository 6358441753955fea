"""Kubernetes' protobuf as clients send it: the wire format, and the messages read into documents."""
