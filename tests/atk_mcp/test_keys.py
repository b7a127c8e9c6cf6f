"""`atk key`: a key goes from one machine to another in a file of its owner's, and none is ever written over."""

import os

import pytest

from atk_mcp.inspector import main
from storage import sealing


@pytest.fixture
def home(tmp_path, monkeypatch):
    def use(name):
        monkeypatch.setenv(sealing.KEY_HOME, str(tmp_path / name))
        return tmp_path / name

    return use


def test_a_key_is_listed_exported_and_imported(home, tmp_path, capsys):
    home("one")
    assert main(["key", "list"]) == 0
    assert "There is no key" in capsys.readouterr().out
    key = sealing.made_or_known("project-1-abcd")
    assert main(["key", "list"]) == 0
    assert capsys.readouterr().out == f"project-1-abcd  {key.id}\n"
    file = tmp_path / "taken.key"
    assert main(["key", "export", "project-1-abcd", str(file)]) == 0
    assert os.stat(file).st_mode & 0o777 == 0o600
    home("two")
    assert main(["key", "import", str(file)]) == 0
    assert main(["key", "import", str(file)]) == 0
    assert sealing.load_key("project-1-abcd", key.id) == key
    assert key.secret.hex() not in capsys.readouterr().out


def test_no_key_is_written_over(home, tmp_path, capsys):
    home("one")
    first = sealing.made_or_known("project-1-abcd")
    file = tmp_path / "taken.key"
    sealing.exported("project-1-abcd", str(file))
    home("two")
    second = sealing.made_or_known("project-1-abcd")
    assert main(["key", "import", str(file)]) == 1
    assert "other_key_there" in capsys.readouterr().err
    assert sealing.load_key("project-1-abcd", second.id).secret != first.secret
    assert main(["key", "export", "project-1-abcd", str(file)]) == 1
    assert main(["key", "export", "project-9-none", str(tmp_path / "new")]) == 1


def test_what_is_no_key_is_said(home, tmp_path, capsys):
    folder = home("one")
    folder.mkdir()
    (folder / "project-1-abcd.key").write_text("something else")
    assert main(["key", "list"]) == 1
    assert "something else" in capsys.readouterr().out
    assert main(["key", "import", str(tmp_path / "none")]) == 1
    assert "holdout_key_unusable" in capsys.readouterr().err
    home("one/project-1-abcd.key")
    assert main(["key", "list"]) == 1
    assert "holdout_key_unusable" in capsys.readouterr().err
