"""A folder may hold anything: it is looked through bounded, and nothing in it is started or followed."""

import os

from atk_mcp.starting import entries, finding, proposals


def test_files_are_found_nearest_first_and_what_others_wrote_is_left_out(folder):
    root = folder({"b.py": "", "a/c.ts": "", "a/d.py": "", "node_modules/x.js": "", ".git/hooks/h.sh": "", "a.sh": ""},
                  executable=["a.sh"])  # fmt: skip
    found = finding.look(str(root))
    assert found.files == [
        finding.File("a.sh", executable=True),
        finding.File("b.py", executable=False),
        finding.File("a/c.ts", executable=False),
        finding.File("a/d.py", executable=False),
    ]
    assert found.languages == ["Python", "shell", "TypeScript"]
    assert found.left_out == {}


def test_links_pipes_and_names_that_act_on_a_terminal_are_left_out_and_counted(folder, tmp_path):
    (tmp_path / "secret.md").write_text("prompt: secret", encoding="utf-8")
    root = folder({"agent.py": "", "x\x1b[2Jprompt.md": "", "-rf": "", "a,b.md": "", "*.md": "", "\u202eprompt.md": ""})
    os.symlink(tmp_path / "secret.md", root / "prompt.md")
    os.symlink(root, root / "prompts")
    os.mkfifo(root / "main.py")
    with open(os.fsencode(root) + b"/prompt\xff.md", "wb"):
        pass
    found = finding.look(str(root))
    assert [file.path for file in found.files] == ["agent.py"]
    assert found.left_out == {"links": 2, "names that no terminal shows as they are": 6}
    assert [found.text(path) for path in ("prompt.md", "main.py", "none.py")] == ["", "", ""]


def test_a_submodule_or_another_repository_is_left_out_since_no_candidate_can_change_it(folder):
    others = {"sub/.git": "gitdir: ../x", "sub/main.py": "", "other/.git/HEAD": "", "other/x.py": ""}
    root = folder({".git/HEAD": "", "agent.py": "", **others})
    found = finding.look(str(root))
    assert [file.path for file in found.files] == ["agent.py"]
    assert found.left_out == {"repositories of their own": 2}


def test_the_walk_ends_where_a_folder_holds_too_much_or_lies_too_deep(folder, monkeypatch):
    deep = "/".join(["d"] * (finding.DEEPEST + 2))
    root = folder({f"many/{number}.py": "" for number in range(12)} | {f"{deep}/agent.py": "", "agent.py": ""})
    monkeypatch.setattr(finding, "MOST_IN_ONE_FOLDER", 10)
    found = finding.look(str(root))
    assert len(found.files) == 11
    assert found.left_out == {"folders that hold too many files": 1}
    monkeypatch.setattr(finding, "MOST_ENTRIES", 3)
    cut = finding.look(str(root))
    assert [file.path for file in cut.files] == ["agent.py"]
    assert cut.left_out == {"folders beyond the first 3 names": 2}


def test_only_the_beginning_of_a_file_and_of_so_many_files_is_read(folder, monkeypatch):
    root = folder({"big.md": "x" * 200_000, "binary.md": "a\udcff"[:1], "other.md": "other"})
    (root / "binary.md").write_bytes(b"a\xff\x00")
    found = finding.look(str(root))
    assert len(found.text("big.md")) == 32 << 10
    assert found.text("binary.md") == "a\ufffd\x00"
    monkeypatch.setattr(finding, "_MOST_READ", 2)
    assert found.text("other.md") == ""
    assert found.text("big.md") != ""


def test_text_made_to_hold_up_a_search_is_read_like_any_other(folder):
    """Each text repeats what one of the patterns begins with, where a careless one takes the square of its length."""
    size = 32 << 10
    repeated = [
        "\n",
        " ",
        "cat ",
        "read ",
        "open(",
        "curl ",
        "environ[",
        "add_argument(",
        "a",
        "A",
        "$A",
        "--",
        "{",
        "prompt",
    ]
    texts = [text * (size // len(text)) for text in repeated]
    files = {f"agent{number}{('.py', '.sh')[number % 2]}": text for number, text in enumerate(texts)}
    root = folder(
        files | {"package.json": "[" * size, "pyproject.toml": "a=" + "[" * size, "SKILL.md": "name:" * 9_999}
    )
    found = finding.look(str(root))
    for entry in entries.entries(found):
        assert entries.guess(found, entry).placement in {"argument", "stdin", "file"}
        entries.is_server(found, entry)
    assert proposals.effects(found) == {}
    assert proposals.variables(found, set(), {}) == ([], [])
    assert proposals.allowed(found, None) == ["SKILL.md"]


def test_a_folder_that_cannot_be_read_is_counted(folder):
    found = finding.look(str(folder({}) / "none"))
    assert (found.files, found.left_out) == ([], {"folders that cannot be read": 1})
