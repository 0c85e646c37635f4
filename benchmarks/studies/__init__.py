"""Studies of the thesis' figures and tables, repeated: `python -m benchmarks.studies --help`."""
