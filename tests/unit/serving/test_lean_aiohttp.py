"""aiohttp is imported without authorities; our own contexts have them all the same, and so has whoever is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys

_ASK = """
import json, os, ssl
from tonnage.serving.process_memory import import_aiohttp
import_aiohttp()
from aiohttp import connector
from tonnage.client.config.connection import KubeconfigCluster, context_of
plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
plain.load_default_certs()
theirs, ours = connector._SSL_CONTEXT_VERIFIED, context_of(KubeconfigCluster("https://example.org"))
print(json.dumps([
    len(theirs.get_ca_certs()), theirs.verify_mode == ssl.CERT_REQUIRED,
    len(ours.get_ca_certs()) == len(plain.get_ca_certs()),
    os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"),
]))
"""


def test_aiohttps_own_context_trusts_nobody_and_ours_whom_the_system_trusts() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_DIR"}
    environment["SSL_CERT_FILE"] = "/no/such/file"
    told = subprocess.run([sys.executable, "-c", _ASK], env=environment, capture_output=True, check=True, timeout=60)
    assert json.loads(told.stdout) == [0, True, True, "/no/such/file", None]
