"""The first step of a transformer, and the CPU time that it took, with and without the imports.

Usage: autodist run growth_training.py -- LAYERS
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from training_steps import TOKENS, training_step, transformer

import autodist

imported_s = time.process_time()
with autodist.scope() as ad:
    step = training_step(transformer(int(sys.argv[1])))
    float(ad.function(step)(np.zeros((8, TOKENS), "int32"), np.zeros(8, "int32")))
told = {"cpu_s": time.process_time(), "imported_s": imported_s}
if os.environ.get("RANK", "0") == "0":
    print("first step " + json.dumps(told), flush=True)
