"""The storage controllers: the PV binder, attach/detach with its CSI attacher, protection, ephemeral claims."""
