"""Start a training on the hosts of the emulated cluster that this process launches on.

Usage: emulated_run.py SCRIPT STRATEGY RUN_DIR [ARGS...]
"""

import sys
from pathlib import Path

from autodist.launch import Job
from autodist.testing import EmulatedCluster, EmulatedLauncher


def main():
    script, strategy, run_dir, *arguments = sys.argv[1:]
    path = Path(__file__).with_name(script)
    job = Job(path, EmulatedCluster.current().spec, tuple(arguments), strategy, run_dir=Path(run_dir))
    result = EmulatedLauncher().launch(job)
    if result.failure is not None:
        sys.stderr.write(f"{result.failure}\n")
    sys.exit(result.exit_code)


if __name__ == "__main__":
    main()
