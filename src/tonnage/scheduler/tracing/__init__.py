"""Traces of pods from queue to binding, by OpenTelemetry, behind a flag; the library is optional.

`pod_traces.py` says which spans a pod has; `open_telemetry.py` reads Kubernetes' TracingConfiguration, and sends spans
when the flag is given: nothing else imports the library.
"""
