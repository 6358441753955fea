"""What every answer tells browsers to refuse: pages, JSON, errors, and streams, which are begun before they end."""

from __future__ import annotations

from typing import Final

SECURITY_HEADERS: Final = {
    # Nothing from elsewhere, nothing inline, in no frame: names from a cluster can never become a script. No Trusted
    # Types policy may be made, so that no text can be set as HTML, or as a script's address, at all.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
