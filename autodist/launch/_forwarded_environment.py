"""Which environment variables reach workers on other machines, and those that the user asks for.

A worker on another machine starts from that machine's environment: search paths, home directories and virtual
environments of the launching machine mean nothing there. Over it come the launcher's variables that steer libraries
(:func:`forwarded_environment`), then those of ``--env`` and ``--env-file`` (:func:`requested_environment`), then those
of the spec, and last what the launcher itself tells its workers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from autodist import carriers
from autodist.coordination import WorkerEnvironment
from autodist.errors import UsageError

_TRAVELLING = (
    *("AUTODIST_*", "TF_*", "TF2_*", "KERAS_*", "XLA_*", "NCCL_*", "GRPC_*", "CUDNN_*", "NVIDIA_TF32_*"),
    *("OMP_*", "KMP_*", "MKL_*", "GOTO_*", "OPENBLAS_*", "ONEDNN_*", "DNNL_*", "NUMEXPR_*"),
    *("CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING"),
    *("PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONFAULTHANDLER", "PYTHONDEVMODE", "PYTHONUTF8", "PYTHONIOENCODING"),
    *("PYTHONOPTIMIZE", "PYTHONDONTWRITEBYTECODE", "PYTHONTRACEMALLOC", "PYTHONASYNCIODEBUG"),
)
# Exceptions: where this machine keeps something, or its place in another cluster.
_STAYING = ("TF_CONFIG", "KERAS_HOME")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REMEDIES = {
    "CUDA_VISIBLE_DEVICES": "`gpus` of the host in the resource spec",
    "AUTODIST_STRATEGY": "`--strategy`",
    "AUTODIST_SEED": "`--seed`",
    "AUTODIST_RUN_DIR": "`--run-dir`",
    "AUTODIST_SPEC": "`--spec`",
    "AUTODIST_DUMP_GRAPHS": "`--dump-graphs`",
    "AUTODIST_START_TIMEOUT_S": "`--start-timeout`",
}


def forwarded_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that workers on other machines get from the launcher's environment without being asked.

    Args:
        environ: The launcher's environment; by default this process'.

    Example:
        >>> forwarded_environment({"TF_CPP_MIN_LOG_LEVEL": "0", "PATH": "/bin", "RANK": "3"})
        {'TF_CPP_MIN_LOG_LEVEL': '0'}
    """
    variables = os.environ if environ is None else environ
    staying = _launchers_own().union(_STAYING)
    travelling = (*_TRAVELLING, *(f"{one.variable_prefix}*" for one in carriers.carriers() if one.variable_prefix))
    return {
        name: value
        for name, value in variables.items()
        if name not in staying and any(fnmatchcase(name, pattern) for pattern in travelling)
    }


def requested_environment(
    variables: Sequence[str] = (), files: Sequence[Path] = (), environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the variables of ``--env`` and ``--env-file``, which all workers get; later ones win, files come first.

    Args:
        variables: ``NAME=VALUE``, or ``NAME`` for the launcher's own value.
        files: With one such variable per line; blank lines and lines that start with ``#`` are skipped, quotes around
            a whole value are taken off, nothing else is special.
        environ: The launcher's environment; by default this process'.

    Raises:
        UsageError: Something is not a variable, is not set, can't be read, or is for the launcher to set; lists all
            mistakes, and no value of a variable.

    Example:
        >>> requested_environment(["N=1", "HF_TOKEN"], environ={"HF_TOKEN": "abc"})
        {'N': '1', 'HF_TOKEN': 'abc'}
    """
    own = os.environ if environ is None else environ
    found: dict[str, str] = {}
    mistakes: list[str] = []
    for origin, text in (*_lines_of(files, mistakes), *(("--env", text) for text in variables)):
        name, is_assignment, value = text.partition("=")
        mistake = _mistake(name, value if is_assignment else own.get(name))
        if mistake:
            mistakes.append(f"`{origin}`: {mistake}")
        else:
            found[name] = value if is_assignment else own[name]
    if mistakes:
        raise UsageError("\n".join(mistakes), hint="write `NAME=VALUE`, or `NAME` for a variable that is set here")
    return found


def _lines_of(files: Sequence[Path], mistakes: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the place of each variable of the files, and the variable."""
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            mistakes.append(f"the file `{file}` of `--env-file` can't be read: {reason}")
            continue
        for number, line in enumerate(lines, 1):
            text = line.strip().removeprefix("export ").lstrip()
            if text and not text.startswith("#"):
                name, is_assignment, value = text.partition("=")
                yield f"{file}:{number}", name.rstrip() + is_assignment + _unquoted(value.strip())


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


def _mistake(name: str, value: str | None) -> str:
    """Say what is wrong with a variable, if anything is; ``value`` is None for one that is not set."""
    if not _NAME.fullmatch(name):
        # The text may be a secret whose name was forgotten.
        return "the name of a variable is missing: it has letters, digits and `_`"
    if name in _launchers_own():
        return f"`{name}` is for the launcher to set" + (f", use {_REMEDIES[name]}" if name in _REMEDIES else "")
    if value is None:
        return f"the variable `{name}` is not set"
    return f"the value of `{name}` has a NUL character" if "\0" in value else ""


def _launchers_own() -> frozenset[str]:
    """Names of the variables by which the launcher tells a worker its place, which no one else may set."""
    told = {*WorkerEnvironment().to_environ()}.union(*(carrier.own_variables for carrier in carriers.carriers()))
    # The runtime's messages name this variable, for users to set it.
    return frozenset(told - {"AUTODIST_STEP_TIMEOUT_S"} | {"CUDA_VISIBLE_DEVICES"})
