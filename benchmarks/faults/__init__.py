"""Everything that breaks a training, tried on emulated hosts: `python -m benchmarks.faults --help`."""
