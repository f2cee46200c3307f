"""Whether the controller at HEALTH_URL answers, for a container's health check: exit code 0 or 1.

The address is the container's own, so its certificate, which names another host, is not checked.
"""

import os
import ssl
import sys
import urllib.error
import urllib.request

_TIMEOUT = 4.0


def main() -> int:
    """Ask once."""
    url = os.environ.get("HEALTH_URL", "http://127.0.0.1:8090/healthz")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=_TIMEOUT) as answer:
            return 0 if answer.status == 200 else 1
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{url}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
