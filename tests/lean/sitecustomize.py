"""What processes that tests start do first: they have Keras pass over scikit-learn and matplotlib.

Keras imports both, where they are installed, for wrappers and drawings that no test uses: a third of the time that a
process needs to start, and tests start hundreds of them. Whoever imports these packages themselves has them as usual.
"""

import sys


class _PassedOver:
    """A finder that finds nothing, but has Keras believe that some packages are not there."""

    names = ("sklearn", "matplotlib")

    def find_spec(self, name, path=None, target=None):
        keras = getattr(sys.modules.get("keras"), "__spec__", None)
        if name in self.names and getattr(keras, "_initializing", False):
            raise ModuleNotFoundError(f"No module named {name!r}: passed over while Keras is imported", name=name)


sys.meta_path.insert(0, _PassedOver())
