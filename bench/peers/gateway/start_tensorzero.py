"""Starts TensorZero's gateway as its client library does, and writes down its port."""

import sys
import threading
import urllib.parse

from tensorzero import _start_http_gateway

gateway = _start_http_gateway(
    config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
)
with open(sys.argv[2], "w") as said:
    said.write(str(urllib.parse.urlparse(gateway.base_url).port))
threading.Event().wait()
