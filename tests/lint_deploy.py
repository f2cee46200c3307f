"""Reads deploy/ with what only `make lint-deploy` installs: the parser of PromQL and Kubernetes' schemas.

``python tests/lint_deploy.py`` in an environment with promql-parser, PyYAML and, where kubectl is, kubernetes-validate.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import yaml  # type: ignore[import-untyped]

DEPLOY = Path(__file__).parents[1] / "deploy"


def main() -> None:
    """Raises ValueError for an expression that is none; exits with the validator's code."""
    import promql_parser  # type: ignore[import-not-found]

    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    asked = [rule["expr"] for group in groups for rule in group["rules"]]
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    asked += [target["expr"] for panel in panels for target in panel.get("targets", [])]
    for expression in asked:
        promql_parser.parse(expression.replace("$__rate_interval", "5m"))
    sys.stdout.write(f"{len(asked)} expressions of PromQL\n")
    if shutil.which("kubectl") is None:
        sys.stdout.write("the manifests are not read: kubectl is not installed\n")
        return
    built = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, check=True
    ).stdout
    validator = Path(sys.executable).with_name("kubernetes-validate")
    sys.exit(subprocess.run([validator, "--strict", "-"], input=built, check=False).returncode)


if __name__ == "__main__":
    main()
