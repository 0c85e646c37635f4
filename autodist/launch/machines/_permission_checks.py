"""Refusals of a run that is not allowed, as far as that is known before anything starts."""

from __future__ import annotations

from autodist.errors import UsageError
from autodist.launch._base import Job
from autodist.launch.machines._machines import is_here, machines_with_ranks


def check_permission(job: Job, transport: object) -> None:
    """Check that what a job names may carry its values: it encrypts if that is wanted, and opens ports only if it may.

    Raises:
        UsageError: The way to other machines does not encrypt.
        StrategyError: The strategy would be carried by what is not allowed.
    """
    if job.encrypt and transport == "srun" and not all(map(is_here, machines_with_ranks(job.spec))):
        raise UsageError(
            "`--encrypt` does not go with the transport `srun`: Slurm sends what it carries, the run's secret too, in "
            "the clear",
            hint="use SSH within the allocation: `--transport asyncssh` or `--transport ssh`",
        )
    if job.spec.world_size > 1 and job.strategy is not None:
        from autodist import carriers, strategies  # which takes as long as all else of a launcher

        # Hosts that lack what encrypts are reported separately.
        encrypting = carriers.names_of(lambda carrier: carrier.encrypts)
        installed = encrypting if job.encrypt else carriers.installed_communicators()
        job.permission.check_chosen(job.strategy, strategies.get(job.strategy), installed)
