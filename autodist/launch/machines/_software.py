"""Whether the machines of a run have the same software: what differs is reported before anything starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from autodist import carriers
from autodist.carriers import Carrier
from autodist.errors import LaunchError, NotInstalled
from autodist.installation import (
    OPENSSL_REMEDY,
    TENSORFLOW,
    TENSORFLOW_ALONE,
    autodist_remedy,
    is_supported,
    tensorflow_remedy,
)

_MOST_NAMED = 4
_PACKAGES = ("autodist", "tensorflow", "keras")


@dataclass(frozen=True)
class Software:
    """The packages of one machine's interpreter.

    Attributes:
        python: Its version, ``"3.12.3"``.
        executable: Its path there.
        packages: Version by name, for those that are installed.
        carriers: Names of the carriers that need not be there and are.
        has_openssl: Whether there is the OpenSSL that AutoDist's own library encrypts with.
    """

    python: str
    executable: str
    packages: Mapping[str, str]
    carriers: Collection[str]
    has_openssl: bool = False

    @property
    def communicators(self) -> tuple[str, ...]:
        """The carriers of gradients there, the fastest first."""
        return carriers.names_of(self.has)

    def has(self, carrier: Carrier) -> bool:
        """Whether a carrier is there."""
        return not carrier.missing or carrier.name in self.carriers

    def version(self, name: str) -> str:
        """Return a package's version; empty if it is not installed."""
        return self.packages.get(name, "")


def check_software(found: Mapping[str, Software], strategy: str | None = None) -> list[str]:
    """Compare the machines of a run.

    Args:
        found: What each has, by the name to call it; the chief's first.
        strategy: The strategy as the job names it.

    Returns:
        What the user should know although the run can go on.

    Raises:
        LaunchError: They differ in what must be equal, or miss it; all of it is listed.
    """
    versions = {"Python": {name: _minor(software.python) for name, software in found.items()}}
    versions |= {package: {name: has.version(package) for name, has in found.items()} for package in _PACKAGES}
    wrong = {package: by_host for package, by_host in versions.items() if not _are_equal(by_host)}
    rows = [f"  {package:<11} {_shown(by_host)}" for package, by_host in wrong.items()]
    lacking = [carrier for carrier in carriers.optional() if _without(carrier, found)]
    needed = [carrier for carrier in lacking if _is_used(carrier, strategy, found)]
    rows += [f"  {carrier.name:<11} {carrier.missing} on {_listed(_without(carrier, found))}" for carrier in needed]
    if rows:
        otherwise = f"choose another communicator, as in {TENSORFLOW_ALONE}"
        hint = _remedy(found, wrong) if wrong else f"{needed[0].remedy}, or {otherwise}"
        raise LaunchError("\n".join(["the hosts must have the same software", *rows]), hint=hint)
    _check_tensorflow(found)
    consequence = _consequence(strategy)
    return without_library(found) + [
        f"{carrier.called} is missing on {_listed(without)}; {consequence}"
        for carrier in lacking
        if len(without := _without(carrier, found)) < len(found)
    ]


def without_library(found: Mapping[str, Software]) -> list[str]:
    """Say what it costs several workers if none of them has AutoDist's own library, and how to get it."""
    if not found or any(software.has(_library()) for software in found.values()):
        return []
    library = _library()
    remedy = library.instructions(next(iter(found.values())).executable, "")
    return [f"{library.called} is missing; that costs: {library.cost}; remedy: {remedy}"]


def _library() -> Carrier:
    """AutoDist's own library."""
    return carriers.get(carriers.carrier_of_servers())


def _check_tensorflow(found: Mapping[str, Software]) -> None:
    """Check that AutoDist works with the version of TensorFlow that all machines have."""
    host, software = next(iter(found.items()))
    version = software.version("tensorflow")
    if not is_supported(version):
        place = f"for `{software.executable}` on `{host}`"
        message = f"TensorFlow {version} is installed {place}, AutoDist works with {TENSORFLOW}"
        raise NotInstalled(message, hint=f"there: {tensorflow_remedy(software.executable)}")


def check_alone(host: str, software: Software) -> None:
    """Look at the only interpreter of a run.

    Args:
        host: Which of its hosts has it.
        software: What the interpreter has.

    Raises:
        NotInstalled: It misses something that AutoDist needs, or has it in a version that AutoDist does not work with.
    """
    missing = [name for name in _PACKAGES if not software.version(name)]
    place = f"for `{software.executable}` on `{host}`"
    if "autodist" in missing:
        raise NotInstalled(
            f"AutoDist is not installed {place}",
            hint=f"there: {autodist_remedy(software.executable)}; or name another interpreter by `python` in the spec",
        )
    if missing:
        named = {"tensorflow": "TensorFlow", "keras": "Keras"}[missing[0]]
        raise NotInstalled(f"{named} is not installed {place}", hint=f"there: {tensorflow_remedy(software.executable)}")
    _check_tensorflow({host: software})


def check_can_encrypt(found: Mapping[str, Software]) -> None:
    """Check that all machines of a run have what encryption needs; where there is one machine, nothing else is said.

    Args:
        found: What each has, by the name to call it.

    Raises:
        LaunchError: Some lack it; all of them are listed.
    """
    library = _library()
    lacks = {
        f"{library.called} (`{library.name}`)": _without(library, found),
        "OpenSSL 3": [name for name, has in found.items() if not has.has_openssl],
    }
    rows = [f"  {what} is not on {_listed(hosts)}" for what, hosts in lacks.items() if hosts]
    if rows:
        remedy = library.remedy if _without(library, found) else OPENSSL_REMEDY
        raise LaunchError("\n".join(["`--encrypt` needs what some hosts lack", *rows]), hint=remedy)


def _without(carrier: Carrier, found: Mapping[str, Software]) -> list[str]:
    """The hosts that do not have a carrier."""
    return [name for name, software in found.items() if not software.has(carrier)]


def _is_used(carrier: Carrier, strategy: str | None, found: Mapping[str, Software]) -> bool:
    """Whether the chief, which makes the strategy, will use a carrier, or may, where it has it."""
    from autodist import strategies

    chosen = None if strategy is None else strategies.get(strategy)
    if isinstance(chosen, strategies.Strategy):
        return carrier.name in chosen.carriers
    return carrier.name in (chosen or strategies.AllReduce()).carriers(next(iter(found.values())).communicators)


def _consequence(strategy: str | None) -> str:
    if strategy is None:
        return "a strategy that the script names must not use it"
    from autodist import strategies

    chosen = strategies.get(strategy)
    if isinstance(chosen, strategies.StrategyBuilder) and chosen.name == "auto":
        return "if `auto` chooses it, the run fails, and another strategy has to be named"
    return "this run does not use it"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _are_equal(by_host: Mapping[str, str]) -> bool:
    return len(set(by_host.values())) == 1 and all(by_host.values())


def _shown(by_host: Mapping[str, str]) -> str:
    """Return which version is where, the most frequent first."""
    hosts: dict[str, list[str]] = {}
    for name, version in by_host.items():
        hosts.setdefault(version, []).append(name)
    ordered = sorted(hosts.items(), key=lambda item: (not item[0], -len(item[1])))
    return "; ".join(f"{version or 'not installed'} on {_listed(names)}" for version, names in ordered)


def _listed(names: Sequence[str]) -> str:
    return (
        ", ".join(names)
        if len(names) <= _MOST_NAMED
        else f"{', '.join(names[: _MOST_NAMED - 1])} and {len(names) - _MOST_NAMED + 1} more"
    )


def _remedy(found: Mapping[str, Software], wrong: Mapping[str, Mapping[str, str]]) -> str:
    """Say what to type, for the first thing that is wrong, on the first host where it is."""
    package, by_host = next(iter(wrong.items()))
    wanted = next((version for version, _ in Counter(filter(None, by_host.values())).most_common(1)), "")
    host = next(name for name, version in by_host.items() if version != wanted or not version)
    other = "name another interpreter of the host by `python` in the resource spec"
    if package == "Python":
        return f"{other}, such as `python: /usr/bin/python{wanted}` for `{host}`"
    if package == "autodist":
        return f"on `{host}`: {autodist_remedy(found[host].executable, wanted)}; or {other}"
    if package == "tensorflow" and not is_supported(wanted):
        return f"on `{host}`: {tensorflow_remedy(found[host].executable)}; or {other}"
    requirement = f"{package}=={wanted}" if wanted else package
    return f"on `{host}`: `{found[host].executable} -m pip install {requirement}`; or {other}"
