"""Groups of flags that several commands share, in the form of Kubernetes' programs."""
