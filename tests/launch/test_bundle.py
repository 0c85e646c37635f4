"""The user's code on its way to other machines."""

import hashlib

import pytest

from autodist.errors import UsageError
from autodist.launch._program import Program
from autodist.launch.machines import _bundle
from autodist.launch.machines._bundle import Bundle
from autodist.launch.machines._data_files import ReadFiles


@pytest.fixture
def project(tmp_path):
    files = {
        "train it.py": "import model, layers.dense", "model.py": "", "notes.txt": "", "data/big.bin": "",
        "layers/__init__.py": "", "layers/dense.py": "", "layers/table.json": "{}", "layers/deep/x.py": "",
        "layers/__pycache__/dense.pyc": "", "layers/.git/config": "", "venv/lib/other.py": "", "runs/x/log.py": "",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def names(bundle):
    return [str(file) for file in bundle.files]


def test_what_the_script_can_import_goes_with_it(project):
    bundle = Bundle.of(Program.of(project / "train it.py"))
    assert names(bundle) == [
        "train it.py", "layers/__init__.py", "layers/deep/x.py", "layers/dense.py", "layers/table.json", "model.py",
    ]  # fmt: skip
    assert bundle.script == project / "train it.py"
    assert bundle.digests["train it.py"] == hashlib.sha256(b"import model, layers.dense").hexdigest()
    bundle.check_size()


def test_a_link_to_the_script_brings_what_it_imports(project, tmp_path_factory):
    link = tmp_path_factory.mktemp("elsewhere") / "link.py"
    link.symlink_to(project / "train it.py")
    assert Bundle.of(Program.of(link)) == Bundle.of(Program.of(project / "train it.py"))


def test_named_files_go_as_well(project, monkeypatch):
    script = project / "train it.py"
    monkeypatch.chdir(project)
    always = names(Bundle.of(Program.of(script)))
    brought = [project / "data", project / "notes.txt"]
    assert sorted(names(Bundle.of(Program.of(script), brought))) == sorted([*always, "data/big.bin", "notes.txt"])
    monkeypatch.chdir("/")
    assert names(Bundle.of(Program.of(script), [type(script)("model.py")])) == always
    assert names(Bundle.of(Program.of(script), [])) == always


READS = """
import json, os, numpy as np
from pathlib import Path
HERE, WORDS = Path(__file__).parent, "words.txt"
HOME = Path(__file__).resolve().parent
TABLE = "table.npz"
np.load(TABLE)
open("rows.csv")
Path("labels.json").read_text()
model.save("saved.keras")
open("log.txt", "w")
Path("log.txt").open("a")
open("/etc/hostname")
open("nowhere.txt")
json.load((HOME / "notes.txt").open())
(Path(__file__).parent / "data" / "big.bin").read_bytes()
open(os.path.join(os.path.dirname(__file__), "more.txt"))
model.save(HOME / "saved.keras")
(HOME / ".env").read_text()
"""


def test_small_data_that_the_script_reads_next_to_itself_go_as_well(project, monkeypatch):
    for name in ("table.npz", "rows.csv", "labels.json", "saved.keras", "log.txt", "more.txt", ".env"):
        (project / name).write_text("here")
    script = project / "train it.py"
    always = names(Bundle.of(Program.of(script)))
    script.write_text(READS)
    monkeypatch.chdir(project)
    found = ReadFiles.of(Program.of(script))
    assert found.next_to_script == ("data/big.bin", "more.txt", "notes.txt")
    assert found.in_directory == ("labels.json", "rows.csv", "table.npz")
    assert sorted(names(Bundle.of(Program.of(script)))) == sorted([*always, *found.next_to_script])
    monkeypatch.setattr(_bundle, "_MOST_DATA_BYTES", 3)
    assert names(Bundle.of(Program.of(script))) == always, "much data goes along only if it is named"


def test_what_is_not_beside_the_script_is_refused(project):
    with pytest.raises(UsageError, match=r"`nope` of .--bring. does not exist\n.*`/etc/hostname`.*is not below"):
        Bundle.of(Program.of(project / "train it.py"), [type(project)("nope"), type(project)("/etc/hostname")])


def test_too_much_is_refused_only_when_it_is_to_be_sent(project, monkeypatch):
    monkeypatch.setattr(_bundle, "_MOST_BYTES", 20)
    bundle = Bundle.of(Program.of(project / "train it.py"))
    assert list(bundle.digests) == ["train it.py"]
    with pytest.raises(UsageError, match="6 files") as caught:
        bundle.check_size()
    assert "shared file system" in caught.value.hint
