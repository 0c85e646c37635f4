"""Every block of Python of a page is run: by tests/test_readme.py, by a test of its page, or here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import PAGES as OF_README

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```python[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
OWN_TESTS = {
    "docs/checkpoints.md": "checkpoints/test_docs.py",
    "docs/compressors.md": "compressors/test_docs.py",
    "docs/doctor.md": "doctor/test_page.py",
    "docs/explain.md": "cli/test_explain_page.py",
    "docs/notebooks.md": "notebook/test_page.py",
    "docs/resource_spec.md": "resource_spec/test_spec_package.py",
    "docs/strategies.md": "strategies/test_docs.py",
}
MODEL = """
import autodist, keras, numpy as np, tensorflow as tf
x = np.ones([8, 4], "float32")
dataset = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(4)
model = keras.Sequential([keras.Input([4]), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
"""
STEP = "from autodist.coordination import current_worker; worker = current_worker(); worker.steps_taken += 1"
# What a page's blocks need before they run, one after the other; None for a block that another test runs.
BEFORE: dict[str, list[str | None]] = {
    "docs/index.md": ["def main(): print('trained')\n"],
    "docs/running.md": [MODEL, f"open('train.py', 'w').write({STEP!r})\n"],
    "docs/state_of_layers.md": [MODEL],
    "docs/tilings.md": [
        """
import pathlib, subprocess, sys
pathlib.Path("train.py").write_text('''import autodist, keras, numpy as np
with autodist.scope():
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones([8, 4], "float32"), np.ones([8, 1], "float32"), batch_size=4, verbose=0)
''')
for words in ("run train.py --workers 2", "init -H worker1,worker2"):
    subprocess.run([sys.executable, "-m", "autodist", *words.split()], check=True)
""",
        None,  # tests/runtime/mesh_script.py has such a layout, on one and on several workers
        "import autodist, numpy as np, tensorflow as tf\n"
        "points, centres = np.float32(np.arange(24).reshape(12, 2)), np.float32([[0, 0], [20, 20]])\n",
    ],
}


def blocks(page: str) -> list[str]:
    return [code for _, code in FENCE.findall((ROOT / page).read_text())]


def test_every_block_of_python_is_run_somewhere():
    """Sessions of an interpreter, in docs/extending.md and in others, are doctests of those pages."""
    pages = [str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")]
    known = {*OF_README, *OWN_TESTS, *BEFORE, "docs/extending.md"}
    assert [page for page in pages if blocks(page) and page not in known] == []
    assert {page: len(several) for page, several in BEFORE.items()} == {page: len(blocks(page)) for page in BEFORE}
    assert len([code for code in blocks("docs/extending.md") if ">>>" not in code]) == 1
    for page, file in OWN_TESTS.items():
        assert Path(page).name in (ROOT / "tests" / file).read_text()


def run(code: str, directory: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    (directory / "snippet.py").write_text(code)  # AutoGraph reads the source
    done = subprocess.run(
        [sys.executable, "snippet.py"],
        cwd=directory, env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", BEFORE)
def test_blocks_of_a_page_run(page: str, tmp_path: Path):
    for before, code in zip(BEFORE[page], blocks(page), strict=True):
        if before is not None:
            run(f"import autodist\n{before}\n{code}", tmp_path)


@pytest.mark.slow
def test_the_program_of_the_page_about_extending_runs(tmp_path: Path):
    [code] = [code for code in blocks("docs/extending.md") if ">>>" not in code]
    run(f"{code}\nassert [worker is not None for worker in outputs] == [True, True]\nassert values", tmp_path)
