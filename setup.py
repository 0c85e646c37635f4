"""What pyproject.toml can't say yet: a library in C++. Without a compiler AutoDist is installed without it."""

from pathlib import Path

from setuptools import Extension, setup

_NATIVE = Path("autodist/transport/native")

setup(
    ext_modules=[
        Extension(
            "autodist.transport._collectives",
            sources=sorted(map(str, _NATIVE.glob("*.cc"))),
            depends=sorted(map(str, _NATIVE.glob("*.h"))),
            extra_compile_args=["-std=c++17", "-O3", "-fvisibility=hidden", "-pthread"],
            extra_link_args=["-pthread", "-ldl"],
            language="c++",
            optional=True,
        )
    ]
)
