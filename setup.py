"""What pyproject.toml can't say yet: a library in C++. Without a compiler AutoDist is installed without it."""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

_NATIVE = Path("autodist/transport/native")


class BuildLibrary(build_ext):
    """Removes what earlier builds have left, in `build/` and in place: it would stand for what could not be built."""

    def build_extension(self, ext: Extension) -> None:
        """Build the library, or leave nothing."""
        Path(self.build_lib, self.get_ext_filename(self.get_ext_fullname(ext.name))).unlink(missing_ok=True)
        super().build_extension(ext)

    def copy_extensions_to_source(self) -> None:
        """Have in place what was built now, if anything was."""
        for left in _NATIVE.parent.glob("_collectives*.so"):
            left.unlink()
        super().copy_extensions_to_source()


setup(
    cmdclass={"build_ext": BuildLibrary},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},  # the library knows nothing of Python: one wheel for all
    ext_modules=[
        Extension(
            "autodist.transport._collectives",
            sources=sorted(map(str, _NATIVE.glob("*.cc"))),
            depends=sorted(map(str, _NATIVE.glob("*.h"))),
            extra_compile_args=["-std=c++17", "-O3", "-fvisibility=hidden", "-pthread"],
            extra_link_args=["-pthread", "-ldl"],
            language="c++",
            optional=True,
            py_limited_api=True,
        )
    ],
)
