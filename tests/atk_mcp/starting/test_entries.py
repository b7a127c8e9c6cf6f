"""How an agent is started and takes its input is guessed from its files."""

import json

import pytest

from atk_mcp.starting import entries, finding

PYTHON = "import sys\nprint(sys.argv[1])\n"

FOLDERS = {
    "a script of Python that reads its arguments": (
        {"agent.py": PYTHON, "tools.py": "def f(): pass", "tests/test_agent.py": PYTHON, "setup.py": PYTHON},
        [("python3", "agent.py")],
        ("argument", ["python3", "agent.py", "{input}"]),
    ),
    "a script of Python that reads stdin": (
        {"main.py": "text = input()\n"},
        [("python3", "main.py")],
        ("stdin", ["sh", "-c", entries.STDIN_SCRIPT, "agent", "{input}", "python3", "main.py"]),
    ),
    "a script of Python that opens a file": (
        {"run.py": "import json, sys\nprint(json.load(open(sys.argv[1])))\n"},
        [("python3", "run.py")],
        ("file", ["python3", "run.py", "{input_file}"]),
    ),
    "a script of Python with an option": (
        {"cli.py": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--question', required=True)\n"},
        [("python3", "cli.py")],
        ("argument", ["python3", "cli.py", "--question", "{input}"]),
    ),
    "an option beside a positional argument": (
        {"cli.py": "import argparse\np.add_argument('ticket')\np.add_argument('--prompt')\n"},
        [("python3", "cli.py")],
        ("argument", ["python3", "cli.py", "{input}"]),
    ),
    "a package of Python": (
        {"triage/__main__.py": PYTHON, "triage/__init__.py": ""},
        [("python3", "-m", "triage")],
        ("argument", ["python3", "-m", "triage", "{input}"]),
    ),
    "Node as package.json names it": (
        {"package.json": json.dumps({"bin": {"a": "./bin/a.js"}, "scripts": {"start": "node b.js"}, "main": "none.js"}),
         "bin/a.js": "process.argv[2]", "b.js": "", "jest.config.js": ""},
        [("node", "bin/a.js"), ("node", "b.js")],
        ("argument", ["node", "bin/a.js", "{input}"]),
    ),
    "Node that reads stdin": (
        {"index.mjs": "for await (const line of process.stdin) {}"},
        [("node", "index.mjs")],
        ("stdin", [*entries.command((), "stdin"), "node", "index.mjs"]),
    ),
    "a shell script": (
        {"agent.sh": '#!/bin/sh\necho "$1"\n', "lib/other.sh": "echo"},
        [("sh", "agent.sh")],
        ("argument", ["sh", "agent.sh", "{input}"]),
    ),
    "a shell script that reads stdin": (
        {"agent.sh": "read -r line\n"},
        [("sh", "agent.sh")],
        ("stdin", [*entries.command((), "stdin"), "sh", "agent.sh"]),
    ),
    "a shell script that reads a file": (
        {"agent.sh": 'jq -r . "$1"\n'},
        [("sh", "agent.sh")],
        ("file", ["sh", "agent.sh", "{input_file}"]),
    ),
    "Perl that reads stdin": (
        {"answer.pl": "my $question = <STDIN>;\n", "t/basic.t": ""},
        [("perl", "answer.pl")],
        ("stdin", [*entries.command((), "stdin"), "perl", "answer.pl"]),
    ),
    "Ruby that opens a file": (
        {"agent.rb": "puts File.read(ARGV[0])\n"},
        [("ruby", "agent.rb")],
        ("file", ["ruby", "agent.rb", "{input_file}"]),
    ),
    "Go that reads stdin": (
        {"go.mod": "", "main.go": "bufio.NewReader(os.Stdin)"},
        [("go", "run", ".")],
        ("stdin", [*entries.command((), "stdin"), "go", "run", "."]),
    ),
    "Go": ({"go.mod": "", "main.go": ""}, [("go", "run", ".")], ("argument", ["go", "run", ".", "{input}"])),
    "Rust": (
        {"Cargo.toml": "", "src/main.rs": ""},
        [("cargo", "run", "--quiet", "--")],
        ("argument", ["cargo", "run", "--quiet", "--", "{input}"]),
    ),
    "a program that pyproject.toml names": (
        {"pyproject.toml": '[project.scripts]\ntriage = "t:main"\n"x y" = "t:main"\n', "lib/t.py": ""},
        [("triage",)],
        ("argument", ["triage", "{input}"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_the_likely_ways_are_found_best_first(folder, name):
    files, ways, (placement, command) = FOLDERS[name]
    found = finding.look(str(folder(files)))
    proposed = entries.entries(found)
    guess = entries.guess(found, proposed[0])
    assert [way.argv for way in proposed] == ways
    assert (guess.placement, entries.command(proposed[0].argv, guess.placement, guess.flag)) == (placement, command)


@pytest.mark.parametrize("path", ["__main__.py", "v1.2/__main__.py"])
def test_a_main_file_that_no_package_holds_is_started_by_its_path(folder, path):
    found = finding.look(str(folder({path: PYTHON})))
    assert [way.argv for way in entries.entries(found)] == [("python3", path)]


def test_an_executable_script_is_started_by_itself(folder):
    found = finding.look(str(folder({"ask": "#!/bin/sh\necho $1\n", "data": "x"}, executable=["ask", "data"])))
    assert entries.entries(found) == [entries.Entry(("./ask",), "an executable script", "ask")]


def test_the_python_of_the_targets_environment_is_taken(folder):
    found = finding.look(str(folder({"agent.py": PYTHON, ".venv/bin/python": ""})))
    assert [way.argv for way in entries.entries(found)] == [(".venv/bin/python", "agent.py")]


def test_a_skill_is_a_way_to_start_and_comes_after_code(folder):
    found = finding.look(str(folder({"skills/refund/SKILL.md": "", "agent.py": PYTHON})))
    code, skill = entries.entries(found)
    assert code.argv == ("python3", "agent.py")
    assert skill == entries.Entry((), "a Skill that the Codex CLI runs", "skills/refund/SKILL.md", "skills/refund")


@pytest.mark.parametrize("files", [{}, {"README.md": "", "notes.txt": ""}, {"tests/test_a.py": PYTHON},
                                   {"package.json": '{"bin": 1, "scripts": [], "main": "../x.js"}'},
                                   {"package.json": "no JSON", "pyproject.toml": "no TOML"}])  # fmt: skip
def test_where_nothing_starts_an_agent_nothing_is_proposed(folder, files):
    assert entries.entries(finding.look(str(folder(files)))) == []


def test_more_ways_than_a_person_reads_are_cut(folder):
    found = finding.look(str(folder({f"{name}.py": PYTHON for name in "abcdefgh"} | {"agent.py": PYTHON})))
    proposed = entries.entries(found)
    assert len(proposed) == entries.MOST
    assert proposed[0].argv == ("python3", "agent.py")


@pytest.mark.parametrize(("text", "serves"), [("app = FastAPI()", True), ("server.listen(80)", True), (PYTHON, False)])
def test_a_server_is_told_from_a_program_that_answers_once(folder, text, serves):
    found = finding.look(str(folder({"agent.py": text})))
    assert entries.is_server(found, entries.entries(found)[0]) is serves


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"agent.py": PYTHON, "requirements.txt": "x"}, "requirements.txt names packages, and there is no .venv here"),
        ({"agent.py": PYTHON, "requirements.txt": "x", ".venv/bin/python": ""}, None),
        ({"agent.py": PYTHON, "pyproject.toml": ""}, None),
        ({"index.js": "", "package.json": '{"dependencies": {"x": "1"}}'}, "run npm ci first"),
        ({"index.js": "", "package.json": '{"dependencies": {"x": "1"}}', "node_modules/x/index.js": ""}, None),
        ({"index.js": "", "package.json": '{"dependencies": {}}'}, None),
    ],
)
def test_what_is_not_installed_yet_is_said_before_the_agent_is_started(folder, files, said):
    found = finding.look(str(folder(files)))
    told = entries.uninstalled(found, entries.entries(found)[0])
    assert (told is None) if said is None else (said in told)
