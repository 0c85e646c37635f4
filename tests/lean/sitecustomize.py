"""What processes that tests start do first: they have TensorFlow and Keras imported in less time.

Tests start hundreds of them. Keras imports scikit-learn and matplotlib, where they are installed, for wrappers and
drawings that no test uses: a third of the time that a process needs to start. Whoever imports these packages itself has
them as usual. And no garbage is collected meanwhile: an import makes a million objects that stay,
among which the collector doesn't look for garbage later either.
"""

import gc
import importlib.machinery
import sys


class _PassedOver:
    """A finder that finds nothing, but has Keras believe that some packages are not there."""

    names = ("sklearn", "matplotlib")

    def find_spec(self, name, path=None, target=None):
        keras = getattr(sys.modules.get("keras"), "__spec__", None)
        if name in self.names and getattr(keras, "_initializing", False):
            raise ModuleNotFoundError(f"No module named {name!r}: passed over while Keras is imported", name=name)


class _Uncollected:
    """A finder of packages during whose import the garbage collector rests."""

    names = ("tensorflow", "keras")

    def find_spec(self, name, path=None, target=None):
        if name not in self.names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _resting(spec.loader.exec_module)
        return spec


def _resting(execute):
    def execute_resting(module):
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            execute(module)
        finally:
            gc.freeze()
            if was_enabled:
                gc.enable()

    return execute_resting


sys.meta_path[:0] = [_PassedOver(), _Uncollected()]
