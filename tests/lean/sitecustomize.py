"""What processes that tests start do first: they have TensorFlow and Keras imported in less time.

Tests start hundreds of them. Keras imports scikit-learn and matplotlib, where they are installed, for wrappers and
drawings that no test uses, and TensorFlow's old Keras imports SciPy: a third of the time that a process needs to start.
Whoever imports these packages itself has them as usual. And no garbage is collected meanwhile: an import makes a
million objects that stay, among which the collector doesn't look for garbage later either. TensorFlow asks thrice for
the signature of each of its functions, and compiles the names of its types 18,000 times: here that is done once.
"""

import contextlib
import gc
import importlib.machinery
import inspect
import sys
import typing


class _PassedOver:
    """A finder that finds nothing, but has Keras and TensorFlow believe that some packages are not there."""

    def find_spec(self, name, path=None, target=None):
        by = {"sklearn": "keras", "matplotlib": "keras", "scipy": "tensorflow"}.get(name)
        if by is not None and getattr(getattr(sys.modules.get(by), "__spec__", None), "_initializing", False):
            raise ModuleNotFoundError(f"No module named {name!r}: passed over while {by} is imported", name=name)


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
            with _asked_once():
                execute(module)
        finally:
            gc.freeze()
            if was_enabled:
                gc.enable()

    return execute_resting


@contextlib.contextmanager
def _asked_once():
    """Keep the signatures of functions and the types that texts name, while inside."""
    signature_of, type_of = inspect._signature_from_function, typing._type_check
    signatures, types = {}, {}

    def kept_signature(kind, function, skip_bound_arg=True, **options):
        if not inspect.isfunction(function) or any(options.values()):
            return signature_of(kind, function, skip_bound_arg, **options)
        key = (kind, function)
        if key not in signatures:
            signatures[key] = signature_of(kind, function)
        return signatures[key]

    def kept_type(argument, *args, **options):
        if type(argument) is not str or len(args) != 1 or options:
            return type_of(argument, *args, **options)
        if argument not in types:
            types[argument] = type_of(argument, *args)
        return types[argument]

    inspect._signature_from_function, typing._type_check = kept_signature, kept_type
    try:
        yield
    finally:
        inspect._signature_from_function, typing._type_check = signature_of, type_of


sys.meta_path[:0] = [_PassedOver(), _Uncollected()]
