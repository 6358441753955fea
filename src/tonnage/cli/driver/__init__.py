"""The commands of the reference CSI driver: the driver itself, and what lies in its pools without a record."""
