"""A worker's process, from its start to its end: ``python -m autodist.worker SCRIPT [ARGS...]``."""
