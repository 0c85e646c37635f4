"""What the page on checkpoints shows is run."""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "checkpoints.md"


def test_snippets_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
        if "answer" in namespace:
            answer, x = namespace.pop("answer"), namespace["x"]
            np.testing.assert_allclose(answer, namespace["model"](x), rtol=1e-5, atol=1e-6)
    assert (tmp_path / "model-3.index").is_file()
    assert np.isfinite(namespace["value"])
