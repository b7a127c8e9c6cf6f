"""What is proposed of scope, protection, variables and effects is what the files say, and no more."""

import pytest

from atk_mcp.starting import entries, finding, proposals

AGENT = entries.Entry(("python3", "agent.py"), "", "agent.py")


@pytest.mark.parametrize(
    ("files", "paths"),
    [
        (["agent.py", "prompts/a.md", "prompts/b/c.txt", "system_prompt.txt"], ["prompts", "system_prompt.txt"]),
        (["agent.py", "SKILL.md", "references/x.md"], ["SKILL.md"]),
        (["agent.py", "skills/a/SKILL.md", "skills/a/prompt.md", "skills/b/SKILL.md"], ["skills/a", "skills/b"]),
        (["agent.py", "AGENTS.md", "config/instructions.yaml"], ["AGENTS.md", "config/instructions.yaml"]),
        (["agent.py", "tests/prompt.md", "prompt_cache.py", "README.md"], ["agent.py"]),
    ],
)
def test_prompts_and_skills_may_change_else_the_file_that_begins(folder, files, paths):
    found = finding.look(str(folder(dict.fromkeys(files, ""))))
    assert proposals.allowed(found, AGENT) == paths


def test_rules_that_the_code_names_may_change_and_others_not(folder):
    files = {
        "agent.js": 'fs.readFileSync(path.join(root, "rules.json"))',
        "src/desk.sh": "sed -f style.txt",
        "rules.json": "{}",
        "style.txt": "",
        "policy.md": "nobody reads it",
        "notes.txt": "",
        "tests/rules.json": "{}",
    }
    found = finding.look(str(folder(files)))
    assert proposals.allowed(found, entries.Entry(("node", "agent.js"), "", "agent.js")) == ["rules.json", "style.txt"]


def test_the_start_tests_answers_dependencies_ci_and_secrets_are_protected(folder):
    files = ["agent.py", "tools.py", "prompts/a.md", "tests/test_a.py", "src/tests/b.py", "data/cases.csv", ".env",
             "pyproject.toml", "uv.lock", ".env.example", ".github/workflows/ci.yml", "evals/golden.jsonl",
             "app_test.py", "a.spec.ts"]  # fmt: skip
    found = finding.look(str(folder(dict.fromkeys(files, ""))))
    assert proposals.protected(found, AGENT, ["prompts"]) == [
        "agent.py", "a.spec.ts", "app_test.py", "evals", "tests", "src/tests", ".env", "pyproject.toml", "uv.lock",
        "data/cases.csv", ".github",
    ]  # fmt: skip


def test_what_may_change_is_not_protected_as_well(folder):
    found = finding.look(str(folder(dict.fromkeys(["agent.py", "tests/prompt.md", "pyproject.toml"], ""))))
    assert proposals.protected(found, AGENT, ["agent.py", "tests"]) == ["pyproject.toml"]
    assert proposals.protected(found, AGENT, ["."]) == ["agent.py", "tests", "pyproject.toml"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [("KEY=secret\nexport OTHER='x'\n", (".env", ["KEY", "OTHER"])), ("# none\n", None), ("no assignment\n", None)],
)
def test_a_file_of_variables_is_told_by_its_names_alone(folder, text, answer):
    found = finding.look(str(folder({".env": text})))
    assert proposals.env_file(found) == answer


def test_variables_that_the_code_reads_are_told_apart_by_whether_anybody_set_them(folder):
    files = {
        "agent.py": "os.environ['SHOP_KEY']; os.environ.get(\"MODEL\"); os.getenv('HOME'); os.environ[name]",
        "a.js": "process.env.NODE_TOKEN",
        "b.sh": "curl -H ${API_TOKEN} $PLAIN",
        "tests/test_a.py": "os.environ['ONLY_IN_TESTS']",
    }
    found = finding.look(str(folder(files)))
    set_now = {"SHOP_KEY": "1", "NODE_TOKEN": "1", "HOME": "/", "UNREAD": "1"}
    assert proposals.variables(found, {"MODEL"}, set_now) == (["NODE_TOKEN", "SHOP_KEY"], ["API_TOKEN"])


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("import smtplib", "mail"),
        ("import psycopg2", "database"),
        ("client = boto3.client('s3')", "cloud service"),
        ("stripe.Charge.create()", "payment"),
        ("requests.post(url)", "HTTP service"),
        ("curl -s https://x -X DELETE", "HTTP service"),
        ("from openai import OpenAI", None),
        ("requests.get(url)", None),
    ],
)
def test_libraries_that_act_on_something_are_named_with_the_file(folder, line, effect):
    found = finding.look(str(folder({"agent.py": line})))
    assert proposals.effects(found) == ({effect: "agent.py"} if effect else {})


def test_the_parts_are_what_may_change_and_the_file_that_begins(folder):
    files = ["agent.py", "prompts/a.md", "Prompts.md", "skills/a/SKILL.md"]
    found = finding.look(str(folder(dict.fromkeys(files, ""))))
    assert proposals.components(found, ["prompts", "Prompts.md", "skills/a", "*.txt"], AGENT) == [
        {"component_id": "prompts", "role": "prompt", "change_role": "variable", "source_path": "prompts"},
        {"component_id": "prompts-2", "role": "prompt", "change_role": "variable", "source_path": "Prompts.md"},
        {"component_id": "skills-a", "role": "skill", "change_role": "variable", "source_path": "skills/a"},
        {"component_id": "agent", "role": "agent_code", "change_role": "fixed", "source_path": "agent.py"},
    ]
    assert proposals.components(found, ["agent.py"], AGENT) == [
        {"component_id": "agent", "role": "agent_code", "change_role": "variable", "source_path": "agent.py"}
    ]
