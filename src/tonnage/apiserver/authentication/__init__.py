"""Who asks? Certificates, tokens and what may be learned from them; `authenticator` is the way in."""
