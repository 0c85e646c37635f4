"""Are the packages there, in the same versions everywhere?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autodist import carriers
from autodist.doctor._examination import Examination, MachineFacts
from autodist.doctor._finding import Finding, Status
from autodist.installation import (
    COSTS,
    OPENSSL_REMEDY,
    TENSORFLOW,
    autodist_remedy,
    is_supported,
)

_NEEDED = ("autodist", "tensorflow", "keras")


def check_packages(examination: Examination) -> Iterator[Finding]:
    """Yield each package of each machine; those that are needed must be there, in the version of most."""
    worth_having = (*sorted({"numpy", *_carriers()}), "openssl")
    for package in (*_NEEDED, *worth_having):
        found = {visit.name: facts.packages.get(package, "") for visit, facts in examination.known}
        usual = max(Counter(filter(None, found.values())).items(), key=lambda item: item[1], default=("", 0))[0]
        for visit, facts in examination.known:
            yield _judge(package, found[visit.name], usual, visit.name, facts)


def _judge(package: str, version: str, usual: str, host: str, facts: MachineFacts) -> Finding:
    is_needed = package in _NEEDED
    worst = Status.FAIL if is_needed else Status.WARN
    if version and version == usual and (package != "tensorflow" or is_supported(version)):
        return Finding(host, package, Status.OK, f"{package} {version}")
    if not is_needed and not version and not usual and package != carriers.carrier_of_servers():
        return Finding(
            host, package, Status.OK, f"{package} is on no host, and not needed", _remedy(package, "", facts)
        )
    if is_needed and package == "tensorflow" and version and version == usual:
        text = f"TensorFlow {version}, AutoDist works with {TENSORFLOW}"
    elif not version:
        cost = _carriers()[package].cost if package in _carriers() else COSTS.get(package, "")
        cost = f"; that costs: {cost}" if cost else ""
        text = f"{_called(package)} is not installed for {facts.executable}{cost}"
    else:
        text = f"{package} {version}, other hosts have {usual}"
    return Finding(host, package, worst, text, _remedy(package, usual, facts))


def _carriers() -> dict[str, carriers.Carrier]:
    """Return the carriers that need not be there, by name."""
    return {carrier.name: carrier for carrier in carriers.optional()}


def _called(package: str) -> str:
    carrier = _carriers().get(package)
    if carrier is not None and carrier.title == package:
        return f"{carrier.called}, `{package}`,"
    return {"openssl": "OpenSSL 3"}.get(package, package)


def _remedy(package: str, version: str, facts: MachineFacts) -> str:
    """Say what to type to have the version."""
    if package in _carriers():
        return _carriers()[package].instructions(facts.executable, facts.compiler)
    if package == "openssl":
        return OPENSSL_REMEDY
    if package == "autodist":
        return f"{autodist_remedy(facts.executable, version)}, there"
    name = "tensorflow-cpu" if package == "tensorflow" and not facts.gpus else package
    wanted = f"=={version}" if version else ""
    if package == "tensorflow" and not is_supported(version):
        return f'`{facts.executable} -m pip install "{name}=={TENSORFLOW}.*"` there'
    return f"`{facts.executable} -m pip install {name}{wanted}` there"
