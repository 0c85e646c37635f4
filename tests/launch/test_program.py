"""What workers run: Python files and modules; everything else is refused, with a remedy for what it is."""

from pathlib import Path

import pytest

from autodist.errors import UsageError
from autodist.launch import Job
from autodist.launch._program import Program
from autodist.launch.machines._bundle import Bundle
from autodist.resource_spec import ResourceSpec


@pytest.fixture
def project(tmp_path, monkeypatch):
    files = {
        "pkg/__init__.py": "raise AssertionError('nothing is imported')", "pkg/train.py": "", "pkg/data.txt": "1",
        "pkg/sub/deep.py": "", "tool/__init__.py": "", "tool/__main__.py": "", "space/only.py": "", "beside.py": "",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "message", "hint"),
    [
        ("c.yml", "nodes: []", "is a YAML file", "`--spec`"),
        ("C.YAML", "nodes: []", "is a YAML file", "`--strategy`"),
        ("best.json", "{}", "is a JSON file", "`--strategy`"),
        ("train.ipynb", "{}", "is a notebook", "jupyter nbconvert --to script train.ipynb"),
        ("run.sh", "python train.py", "is a shell script", "after `--`"),
        ("launch", "#!/usr/bin/env bash\npython train.py", "is a shell script", "after `--`"),
        ("data.csv", "1,2", "is not a Python file", "`-m`"),
        ("notes", "it isn't Python", "is not a Python file", "`-m`"),
        ("binary", "\0\1\2", "is not a Python file", "`-m`"),
    ],
)
def test_other_files_are_refused(project, name, text, message, hint):
    (project / name).write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        Job(Path(name), ResourceSpec.local(1, 1))
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "not ( python"),
        ("b", "print(1)"),
        ("c.cgi", "#!/usr/bin/python3\n1"),
        ("d", "#!/usr/bin/env python\n1"),
    ],
)
def test_python_by_any_name_is_run(project, name, text):
    (project / name).write_text(text)
    assert Job(Path(name), ResourceSpec.local(1, 1)).program.words("/there/x") == ("/there/x",)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("pkg.train", "pkg/train.py"), ("tool", "tool/__main__.py"), ("beside", "beside.py"),
        ("pkg.sub.deep", "pkg/sub/deep.py"), ("space.only", "space/only.py"),
    ],
)  # fmt: skip
def test_modules_are_found_without_being_imported(project, name, file):
    program = Job(name, ResourceSpec.local(1, 1), is_module=True).program
    assert program == Program(project / file, name, project)
    assert program.words(f"/there/{file}") == ("-m", name, "/there")


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("pkg", "has no `__main__.py`", "`-m pkg.train`"),
        ("pkg.nope", "there is no such module", "PYTHONPATH"),
        ("pkg/train.py", "not a module's name", "without `-m`"),
        ("beside.py", "not a module's name", "without `-m`"),
    ],
)
def test_modules_that_are_none(project, name, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        Program.of(Path(name), is_module=True)
    assert hint in caught.value.hint


def test_a_directory_with_a_main_is_told_of_its_way(project):
    with pytest.raises(UsageError, match="is a directory") as caught:
        Program.of(Path("tool"))
    assert "`-m tool`" in caught.value.hint
    with pytest.raises(UsageError, match="does not exist") as caught:
        Program.of(Path("pkg.train"))
    assert "`-m pkg.train`" in caught.value.hint


def test_a_module_takes_its_packages_along(project):
    bundle = Bundle.of(Program.of(Path("space.only"), is_module=True))
    assert (bundle.root, str(bundle.files[0])) == (project.resolve(), "space/only.py")
    assert {str(file) for file in bundle.files} == {
        "space/only.py", "beside.py", "pkg/__init__.py", "pkg/train.py", "pkg/data.txt", "pkg/sub/deep.py",
        "tool/__init__.py", "tool/__main__.py",
    }  # fmt: skip


@pytest.mark.parametrize("line", ["import os, ours", "from ours import train", "import ours as mine"])
def test_a_script_of_another_library_whose_own_module_has_a_scope_is_let_be(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ours.py").write_text("import autodist\n")
    script = "import horovod.tensorflow as hvd\nif True:\n"
    Path("theirs.py").write_text(f"{script}    pass\n")
    with pytest.raises(UsageError, match=r"`theirs\.py` is distributed by Horovod already"):
        Program.of(Path("theirs.py"))
    Path("theirs.py").write_text(f"{script}    {line}\n")
    assert Program.of(Path("theirs.py")).file == Path("theirs.py")
