"""The CSI protocol: what provisioner, controllers and nodes say to a driver, and what a driver answers.

`csi.proto` is the protocol, in our words and with KEP-5925's field; `csi_pb2` and `csi_pb2_grpc` are made from it.
"""
