"""What a run that encrypts can't have, as far as that is known before anything starts."""

from __future__ import annotations

from autodist import carriers, strategies
from autodist.errors import UsageError
from autodist.launch._base import Job
from autodist.launch._machines import is_here, machines_with_ranks

__all__ = ["check_encryption"]


def check_encryption(job: Job, transport: object) -> None:
    """See that what a job names can be encrypted, if it is to be.

    Args:
        job: What is to be run.
        transport: The way to other machines.

    Raises:
        UsageError: Something would travel in the clear.

    """
    if not job.encrypt:
        return
    if transport == "srun" and not all(map(is_here, machines_with_ranks(job.spec))):
        raise UsageError(
            "`--encrypt` does not go with the transport `srun`: Slurm sends what it carries, the run's secret too, in "
            "the clear",
            hint="use SSH within the allocation: `--transport asyncssh` or `--transport ssh`",
        )
    if job.spec.world_size > 1 and job.strategy is not None:
        _check_strategy(job.strategy)


def _check_strategy(text: str) -> None:
    chosen = strategies.get(text)
    if isinstance(chosen, strategies.Strategy):
        strategies.check_encryptable(chosen)
    elif chosen.tries > 1 or chosen.name == "auto":
        raise UsageError(
            f"`--encrypt` does not go with `{text}`, which may choose what can't be encrypted",
            hint="name a strategy: `--strategy AllReduce`",
        )
    else:
        strategies.refuse_in_the_clear(text, chosen.carriers(carriers.names_of(lambda carrier: carrier.encrypts)))
