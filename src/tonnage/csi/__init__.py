"""The CSI protocol: what provisioner, controllers and nodes say to a driver, and what a driver answers.

`csi.proto` is the protocol, in our words and with KEP-5925's field; `csi_pb2` and `csi_pb2_grpc` are made from it.
`client` asks, `server` listens, `errors` is how a refusal is told, `address` where a driver is, `metrics` counts calls.
`conversion` turns what Kubernetes' objects say into CSI's words;
`driver_capabilities` is what a driver can do.
"""
