"""Trains on the hosts of the emulated cluster that this process launches on: `STRATEGY RUN_DIR`."""

import sys
from pathlib import Path

from autodist.launch import Job
from autodist.testing import EmulatedCluster, EmulatedLauncher

strategy, run_dir = sys.argv[1:]
script = Path(__file__).with_name("train_large.py")
result = EmulatedLauncher().launch(Job(script, EmulatedCluster.current().spec, (), strategy, run_dir=Path(run_dir)))
print(result.failure)
sys.exit(result.exit_code)
