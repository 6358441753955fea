"""Who asked for what, and what came of it: a line of audit.k8s.io/v1 a request, off unless --audit-log-path says where.

`audit_event` makes the event (pure), `audit_log_file` keeps the file within bounds, `audit_log` is what `app` talks to.
The level is Metadata: nothing of bodies and of credentials is written.
"""
