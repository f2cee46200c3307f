"""``make audit``: known vulnerabilities of what is installed and of the lowest versions allowed, and a software bill of materials.

``python tests/audit.py PYTHON DIRECTORY`` in an environment with pip-audit and cyclonedx-bom; PYTHON is that of the environment to
look at, DIRECTORY gets ``sbom.cdx.json`` (CycloneDX) and ``vulnerabilities.json``. Exits with 1 for a vulnerability, with 3 where the
advisory service (https://osv.dev) does not answer, so that nothing is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOWEST = ROOT / "tests" / "constraints" / "lowest.txt"
_VULNERABLE, _UNKNOWN = 1, 3
_TIMEOUT = 300.0


def main() -> int:
    """The exit code."""
    python, directory = sys.argv[1], Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    bill = directory / "sbom.cdx.json"
    _bill(python, bill)
    frozen = directory / "requirements.txt"
    frozen.write_text(
        subprocess.run(
            [python, "-m", "pip", "freeze", "--exclude-editable"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    )
    found: dict[str, Any] = {}
    for what, file in (("what is installed", frozen), ("the lowest versions", LOWEST)):
        advised = _advisories(file)
        if advised is None:
            sys.stdout.write(
                f"{what}: NOT CHECKED, the advisory service https://osv.dev does not answer from here\n"
                f"the bill of materials is {bill}: it can be checked elsewhere\n"
            )
            return _UNKNOWN
        found[what] = advised
        wrong = [row for row in advised["dependencies"] if row.get("vulns")]
        sys.stdout.write(
            f"{what}: {len(advised['dependencies'])} packages, {len(wrong)} with known vulnerabilities\n"
        )
        for row in wrong:
            for one in row["vulns"]:
                mended = ", ".join(one["fix_versions"]) or "no version yet"
                sys.stdout.write(f"  {row['name']} {row['version']}: {one['id']}, mended in {mended}\n")
    (directory / "vulnerabilities.json").write_text(json.dumps(found, indent=1))
    return (
        _VULNERABLE if any(row.get("vulns") for one in found.values() for row in one["dependencies"]) else 0
    )


def _bill(python: str, file: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "environment",
        python,
        "--pyproject",
        str(ROOT / "pyproject.toml"),
    ]
    subprocess.run([*words, "--output-reproducible", "--of", "JSON", "-o", str(file)], check=True)
    components = json.loads(file.read_text())["components"]
    sys.stdout.write(f"{file}: {len(components)} components\n")


def _advisories(file: Path) -> dict[str, Any] | None:
    """What is known of the pinned versions in a file; None where the service does not answer."""
    words = [sys.executable, "-m", "pip_audit", "--requirement", str(file), "--no-deps", "--disable-pip"]
    words += [
        "--vulnerability-service",
        "osv",
        "--format",
        "json",
        "--progress-spinner",
        "off",
        "--timeout",
        "15",
    ]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return None
    try:
        advised: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.stdout.write("".join(f"  {line}\n" for line in done.stderr.splitlines()[-1:]))
        return None
    return advised


if __name__ == "__main__":
    sys.exit(main())
