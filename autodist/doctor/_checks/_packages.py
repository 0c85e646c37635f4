"""Are the packages there, in the same versions everywhere?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autodist.doctor._examination import Examination, MachineFacts
from autodist.doctor._finding import Finding, Status
from autodist.installation import (
    COSTS,
    OPENSSL_REMEDY,
    TENSORFLOW,
    autodist_remedy,
    horovod_remedy,
    is_supported,
    tcp_remedy,
)

__all__ = ["check_packages"]

_NEEDED = ("autodist", "tensorflow", "keras")
_WORTH_HAVING = ("horovod", "numpy", "tcp", "openssl")
_CALLED = {"tcp": "AutoDist's own library, `tcp`,", "openssl": "OpenSSL 3"}


def check_packages(examination: Examination) -> Iterator[Finding]:
    """Yield each package of each machine; those that are needed must be there, in the version of most."""
    for package in (*_NEEDED, *_WORTH_HAVING):
        found = {visit.name: facts.packages.get(package, "") for visit, facts in examination.known}
        usual = max(Counter(filter(None, found.values())).items(), key=lambda item: item[1], default=("", 0))[0]
        for visit, facts in examination.known:
            yield _judge(package, found[visit.name], usual, visit.name, facts)


def _judge(package: str, version: str, usual: str, host: str, facts: MachineFacts) -> Finding:
    is_needed = package in _NEEDED
    worst = Status.FAIL if is_needed else Status.WARN
    if version and version == usual and (package != "tensorflow" or is_supported(version)):
        return Finding(host, package, Status.OK, f"{package} {version}")
    if not is_needed and not version and not usual and package != "tcp":
        return Finding(
            host, package, Status.OK, f"{package} is on no host, and not needed", _remedy(package, "", facts)
        )
    if is_needed and package == "tensorflow" and version and version == usual:
        text = f"TensorFlow {version}, AutoDist works with {TENSORFLOW}"
    elif not version:
        cost = f"; that costs: {COSTS[package]}" if package in COSTS else ""
        text = f"{_CALLED.get(package, package)} is not installed for {facts.executable}{cost}"
    else:
        text = f"{package} {version}, other hosts have {usual}"
    return Finding(host, package, worst, text, _remedy(package, usual, facts))


def _remedy(package: str, version: str, facts: MachineFacts) -> str:
    """Say what to type to have the version."""
    if package == "horovod":
        return horovod_remedy(facts.executable)
    if package == "openssl":
        return OPENSSL_REMEDY
    if package == "tcp":
        return tcp_remedy(facts.executable, facts.compiler)
    if package == "autodist":
        return f"{autodist_remedy(facts.executable, version)}, there"
    name = "tensorflow-cpu" if package == "tensorflow" and not facts.gpus else package
    wanted = f"=={version}" if version else ""
    if package == "tensorflow" and not is_supported(version):
        return f'`{facts.executable} -m pip install "{name}=={TENSORFLOW}.*"` there'
    return f"`{facts.executable} -m pip install {name}{wanted}` there"
