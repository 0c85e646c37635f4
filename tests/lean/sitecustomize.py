"""What processes that tests start do first: they have TensorFlow and Keras imported in less time.

Tests start hundreds of them. Keras imports scikit-learn and matplotlib, where they are installed, for wrappers and
drawings that no test uses, and TensorFlow's old Keras imports SciPy: a third of the time that a process needs to start.
Whoever imports these packages itself has them as usual. And no garbage is collected meanwhile: an import makes a
million objects that stay, among which the collector doesn't look for garbage later either. TensorFlow asks thrice for
the signature of each of its functions, and compiles the names of its types 18,000 times: here that is done once. Most
signatures it only hands on: they are made when somebody looks into them.
"""

import contextlib
import functools
import gc
import importlib.machinery
import inspect
import sys
import types
import typing


class _PassedOver:
    """A finder that finds nothing, but has Keras and TensorFlow believe that some packages are not there."""

    def find_spec(self, name, path=None, target=None):
        by = {"sklearn": "keras", "matplotlib": "keras", "scipy": "tensorflow"}.get(name)
        if by is not None and getattr(getattr(sys.modules.get(by), "__spec__", None), "_initializing", False):
            raise ModuleNotFoundError(f"No module named {name!r}: passed over while {by} is imported", name=name)


class _Changing:
    """A finder of modules that are executed in another way."""

    def __init__(self, names, change):
        self.names, self.change = names, change

    def find_spec(self, name, path=None, target=None):
        if name not in self.names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self.change(spec.loader.exec_module)
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


class _LaterSignature(inspect.Signature):
    """A signature that is made when somebody looks into it."""

    __slots__ = ("_make",)

    def __init__(self, make):
        self._make = make

    def __getattr__(self, name):
        if name not in ("_parameters", "_return_annotation"):
            raise AttributeError(name)
        made = self._make()
        self._parameters, self._return_annotation = made.parameters, made.return_annotation
        return getattr(self, name)

    def _made(self):
        return inspect.Signature(tuple(self.parameters.values()), return_annotation=self.return_annotation)

    def replace(self, **changes):
        return self._made().replace(**changes)

    def __reduce__(self):
        return self._made().__reduce__()


def _making_later(execute):
    def execute_making_later(module):
        execute(module)
        make = module.fullargspec_to_signature
        module.fullargspec_to_signature = lambda asked: _LaterSignature(functools.partial(make, asked))

    return execute_making_later


def _arguments_of(function):
    """What `inspect.getfullargspec` says of a plain function, from its code."""
    code, names = function.__code__, function.__code__.co_varnames
    first, last = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    rest, told = iter(names[last:]), function.__annotations__
    return inspect.FullArgSpec(
        args=list(names[:first]),
        varargs=next(rest) if code.co_flags & inspect.CO_VARARGS else None,
        varkw=next(rest) if code.co_flags & inspect.CO_VARKEYWORDS else None,
        defaults=function.__defaults__,
        kwonlyargs=list(names[first:last]),
        kwonlydefaults=dict(function.__kwdefaults__) if function.__kwdefaults__ else None,
        annotations={name: told[name] for name in ("return", *names) if name in told},
    )


@contextlib.contextmanager
def _asked_once():
    """Keep the signatures of functions and the types that texts name, while inside."""
    signature_of, type_of, arguments_of = inspect._signature_from_function, typing._type_check, inspect.getfullargspec
    signatures, named = {}, {}

    def kept_signature(kind, function, skip_bound_arg=True, **options):
        if kind is not inspect.Signature or not inspect.isfunction(function) or any(options.values()):
            return signature_of(kind, function, skip_bound_arg, **options)
        if function not in signatures:
            signatures[function] = _LaterSignature(functools.partial(signature_of, kind, function))
        return signatures[function]

    def kept_type(argument, *args, **options):
        if type(argument) is not str or len(args) != 1 or options:
            return type_of(argument, *args, **options)
        if argument not in named:
            named[argument] = type_of(argument, *args)
        return named[argument]

    def arguments(function):
        is_plain = type(function) is types.FunctionType and "__signature__" not in function.__dict__
        return _arguments_of(function) if is_plain else arguments_of(function)

    inspect._signature_from_function, typing._type_check, inspect.getfullargspec = kept_signature, kept_type, arguments
    try:
        yield
    finally:
        inspect._signature_from_function, typing._type_check = signature_of, type_of
        inspect.getfullargspec = arguments_of


sys.meta_path[:0] = [
    _PassedOver(),
    # While these are imported the garbage collector rests.
    _Changing(("tensorflow", "keras"), _resting),
    # This one makes signatures of what TensorFlow has asked of functions.
    _Changing(("tensorflow.python.util.tf_decorator",), _making_later),
]
