"""What one device makes of a script that writes its results to a directory."""

import os
import subprocess
import sys

import numpy as np


def ran_alone(script, directory):
    """The arrays that the script writes as ``alone.npz``, run by plain Python."""
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    subprocess.run([sys.executable, str(script), str(directory)], check=True, timeout=120, env=environment)
    return np.load(directory / "alone.npz")
