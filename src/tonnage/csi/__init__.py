"""The CSI protocol: what provisioner, controllers and nodes send to a driver, and its answers.

`csi.proto` is the protocol, in our words and with KEP-5925's field; `csi_pb2` and `csi_pb2_grpc` are generated from it.
"""
