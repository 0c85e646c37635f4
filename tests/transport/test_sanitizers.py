"""The library under the sanitizers of the compilers, and fuzzed by libFuzzer; their findings end the programs.

`AUTODIST_TESTS_FUZZED_S` says for how many seconds each of the two targets is fuzzed: by default for half a minute,
which makes a minute in all, and for half an hour where the slow tests run, which makes an hour.
"""

import os
import shutil
import subprocess

import pytest

from tests.transport.native import built

LIBRARY = ("channel.cc", "peer.cc", "floats.cc", "operation.cc", "summing.cc", "transport.cc")
ENCRYPTION = ("encrypted.cc", "openssl.cc")
FUZZED_S = int(os.environ.get("AUTODIST_TESTS_FUZZED_S", "30"))
FUZZED_LONG_S = int(os.environ.get("AUTODIST_TESTS_FUZZED_S", "1800"))


@pytest.mark.parametrize("sanitizers", ["thread", pytest.param("address,undefined", marks=pytest.mark.slow)])
def test_many_collectives_at_once(tmp_path, sanitizers):
    flags = ("-g1", "-O1", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all")
    program = built(tmp_path, "exchange.cc", *flags, "-DAUTODIST_RECORDS_PER_KEY=5", "-ldl", of=LIBRARY + ENCRYPTION)
    ended = subprocess.run([program], capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr


FUZZED = {"fuzz_messages": LIBRARY, "fuzz_codes": ("floats.cc",)}


def _fuzz(tmp_path, target: str, seconds: int) -> None:
    compiler = next(filter(shutil.which, ["clang++", "clang++-14"]), None)
    if compiler is None:
        pytest.skip("no clang with libFuzzer: `scripts/install-test-tools` installs it on Debian as root")
    flags = ("-g1", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all")
    program = built(tmp_path, f"{target}.cc", *flags, of=FUZZED[target], compiler=compiler)
    # Its limit of resident memory would count what the process that starts it once had: that peak survives `exec`.
    limits = [f"-max_total_time={seconds}", "-max_len=4000", "-rss_limit_mb=0", "-malloc_limit_mb=2500"]
    command = [program, *limits, "-verbosity=0", "-print_final_stats=1"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=seconds + 120)
    assert ended.returncode == 0, ended.stderr[-5000:]
    assert "stat::number_of_executed_units:" in ended.stderr


@pytest.mark.timeout(FUZZED_S + 300)
@pytest.mark.parametrize("target", FUZZED)
def test_nothing_that_comes_does_harm(tmp_path, target):
    _fuzz(tmp_path, target, FUZZED_S)


@pytest.mark.slow
@pytest.mark.timeout(FUZZED_LONG_S + 300)
@pytest.mark.parametrize("target", FUZZED)
def test_nothing_that_comes_does_harm_for_long(tmp_path, target):
    _fuzz(tmp_path, target, FUZZED_LONG_S)
