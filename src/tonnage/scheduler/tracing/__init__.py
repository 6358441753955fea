"""Traces of pods from queue to binding, by OpenTelemetry, behind a flag; the library is optional.

`configuration.py` reads Kubernetes' TracingConfiguration, `pod_traces.py` says which spans a pod has, `tracer.py` is
the seam, and `open_telemetry.py` what stands behind it when the flag is given: nothing else imports the library.
"""
