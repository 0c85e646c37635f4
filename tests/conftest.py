"""What all tests share: the same examples in every run, unless `AUTODIST_TESTS_RANDOM=1` asks for others."""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
if not os.environ.get("AUTODIST_TESTS_RANDOM"):
    settings.load_profile("same")
