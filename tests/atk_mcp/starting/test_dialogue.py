"""Questions lead to the request that the answers say, and what cannot be taken is asked again."""

import io

import pytest

from atk_mcp.starting import dialogue, finding
from atk_mcp.starting.asking import AnswersEnded, Asking, Unusable, listed, one_of

PYTHON = "import sys\nprint(sys.argv[1])\n"
TARGET = {"agent.py": PYTHON, "prompts/system.md": "", "tests/test_agent.py": ""}


@pytest.fixture
def answered(folder, capsys):
    """Returns a function that answers line by line, and gives the request and what was shown."""

    def made(files, *lines, git=True):
        asking = Asking(answers=io.BytesIO("".join(f"{line}\n" for line in lines).encode()))
        request, started = dialogue.request(asking, finding.look(str(folder(files))), git=git)
        assert asking.answers.read() == b""
        return request, started, capsys.readouterr().out

    return made


def test_enter_takes_every_default(answered):
    request, started, _ = answered(TARGET, *[""] * 6)
    assert request == {
        "command": ["python3", "agent.py", "{input}"],
        "allowed_paths": ["prompts"],
        "protected_paths": ["agent.py", "tests"],
        "components": [
            {"component_id": "prompts", "role": "prompt", "change_role": "variable", "source_path": "prompts"},
            {"component_id": "agent", "role": "agent_code", "change_role": "fixed", "source_path": "agent.py"},
        ],
        "external_effects": [],
        "timeout_seconds": 120,
    }
    assert started.placement == "argument"


def test_every_answer_reaches_the_request(answered):
    protection = ["mail, billing", "2", "the sandbox of staging", "1"]
    lines = ["node bot.js --ask {input}", "prompts/**, agent.py", "tests", *protection, "30"]
    request, started, _ = answered(TARGET, *lines)
    assert request == {
        "command": ["node", "bot.js", "--ask", "{input}"],
        "allowed_paths": ["prompts/**", "agent.py"],
        "protected_paths": ["tests"],
        "components": [
            {"component_id": "agent", "role": "agent_code", "change_role": "variable", "source_path": "agent.py"}
        ],
        "external_effects": [
            {"name": "mail", "protection": {"kind": "test_environment", "evidence_ref": "the sandbox of staging"}},
            {"name": "billing"},
        ],
        "timeout_seconds": 30,
    }
    assert started.placement is None


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        (["9"], ["1", "", "", "", "", ""], "'9' is no choice. Give a number from 1 to 1."),
        (["a | b"], ["1", "", "", "", "", ""], "| is for a shell, and a command is started without one."),
        (["KEY=1 python3 agent.py"], ["1", "", "", "", "", ""], "KEY=… before a command is for a shell"),
        (["'open"], ["1", "", "", "", "", ""], "Close every quote"),
        (["a {inputs}"], ["1", "", "", "", "", ""], "{inputs}"),
        (["\x1b[A"], ["1", "", "", "", "", ""], "a character that is no text"),
        (["1", "4"], ["1", "", "", "", ""], "'4' is no choice. Give a number from 1 to 3."),
        (["1", "", "nothing"], ["", "", "", ""], "Something has to be free to change."),
        (["1", "", "../x"], ["", "", "", ""], "it has a part .."),
        (["1", "", "prompt.md"], ["", "", "", ""], "There is no prompt.md in"),
        (["1", "", "prompts", "prompts"], ["", "", ""], "prompts may be changed, so it cannot be protected as well."),
        (["1", "", "", "", "", "0"], ["5"], "'0' is no number of seconds from 1 to 86400."),
        (["1", "", "", "", "", "soon"], ["5"], "'soon' is no number of seconds"),
        (["1", "", "", "", "mail", "2", ""], ["the stub", ""], "Say in a few words where somebody can look."),
    ],
)
def test_what_cannot_be_taken_is_said_and_asked_again(answered, wrong, right, said):
    _, _, shown = answered(TARGET, *wrong, *right)
    assert said in " ".join(shown.split())


@pytest.mark.parametrize("python", [".venv/bin/python", "/usr/bin/python3", "python3 -W error.x"])
@pytest.mark.parametrize("script", ["agent.py", "./agent.py"])
def test_the_file_that_begins_is_found_whatever_starts_it(answered, python, script):
    request, _, _ = answered({"agent.py": PYTHON, ".venv/bin/python": ""}, f"{python} {script}", *[""] * 5)
    assert request["command"][-1] == "{input}"
    assert [(part["source_path"], part["change_role"]) for part in request["components"]] == [("agent.py", "variable")]


def test_without_git_nothing_but_the_mode_differs(answered):
    request, _, _ = answered({"agent.py": PYTHON}, *[""] * 6, git=False)
    assert request["analysis_only"] is True
    assert request["command"] == ["python3", "agent.py", "{input}"]


def test_without_an_agent_evidence_is_imported(answered):
    assert answered(TARGET, "none")[:2] == ({"analysis_only": True}, None)


def test_a_folder_without_an_agent_proposes_to_import_only(answered):
    request, started, shown = answered({"README.md": ""}, "")
    assert (request, started) == ({"analysis_only": True}, None)
    assert "Nothing here looks like it starts an agent." in shown


def test_a_skill_is_run_by_codex_under_the_name_that_it_has(answered):
    skill = "---\nname: refund\ndescription: Refunds.\n---\n"
    request, _, _ = answered({"skills/money/SKILL.md": skill}, *[""] * 5)
    assert request["adapter_options"] == {"skill_path": "skills/money", "skill_name": "refund"}
    assert "command" not in request
    assert request["allowed_paths"] == ["skills/money"]


def test_a_login_of_codex_is_linked_only_where_the_person_says_so(answered, tmp_path):
    (tmp_path / "home" / ".codex").mkdir(parents=True)
    (tmp_path / "home" / ".codex" / "auth.json").write_text("{}", encoding="utf-8")
    request, _, _ = answered({"SKILL.md": "name: refund\n"}, "", "yes", *[""] * 4)
    assert request["adapter_options"] == {"skill_path": ".", "skill_name": "refund", "auth_file": "~/.codex/auth.json"}


def test_variables_are_named_and_their_values_never_shown(answered, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    files = {"agent.py": PYTHON + "os.environ['SHOP_KEY']; os.environ['UNSET_KEY']", ".env": "DB_PASSWORD=hunter3\n"}
    wrong = ["A=1", "LD_PRELOAD"]
    request, _, shown = answered(files, "", "", "", *wrong, "", *[""] * 4)
    assert (request["env_file"], request["environment"]) == (".env", ["SHOP_KEY"])
    assert "also reads UNSET_KEY, which nobody has set" in " ".join(shown.split())
    assert "hunter" not in shown
    assert "'A=1' is no name of a variable" in shown


def test_text_of_the_folder_reaches_the_terminal_without_what_acts_on_it(capsys):
    Asking(yes=True).show("x\x1b[2Jy")
    assert capsys.readouterr().out == "x\\u001b[2Jy\n"


def test_answers_that_end_end_the_dialogue(folder):
    found = finding.look(str(folder(TARGET)))
    with pytest.raises(AnswersEnded):
        dialogue.request(Asking(answers=io.BytesIO(b"1\nhalf a li")), found, git=True)


def test_with_yes_a_default_that_cannot_be_taken_is_no_loop():
    with pytest.raises(Unusable):
        Asking(yes=True).ask("x", "Which?", "4", one_of(["a"]))


@pytest.mark.parametrize(("given", "found"), [("a, b,,a", ["a", "b"]), ("nothing", []), ("-", []), ("", [])])
def test_a_list_is_read_by_its_commas(given, found):
    assert listed(given) == found
