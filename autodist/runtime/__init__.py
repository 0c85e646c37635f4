"""The runtime of a worker: the engine that runs a scope's training steps, in rooms.

What the rooms are for, from the lowest to the highest:

- ``data``: what a step is given, and which part of it each worker takes.
- ``session``: the TensorFlow session of a worker, its servers and its carriers.
- ``state``: the program's variables, and where the session holds them.
- here: steps, compiled and run by the engine, or by its undistributed twin.
- ``hooks``: the parts of the program that are intercepted while a scope is open.
- ``keras``, ``checkpoints``, ``measuring``: what uses the engine.

Importing this package does not import TensorFlow.
"""

from autodist.runtime._engine import Engine
from autodist.runtime._recorder import Recorder
from autodist.runtime._reference import ReferenceEngine

__all__ = ["Engine", "Recorder", "ReferenceEngine"]
