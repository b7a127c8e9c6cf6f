"""Rules of the house that no linter knows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("atk_mcp", "operations", "storage")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
SKILLS = sorted((ROOT / "skills").glob("*/SKILL.md"))
LIMIT = 400
every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


def loaded_by(code: str) -> set[str]:
    """Returns the top-level names of the modules that a fresh interpreter holds after `code`."""
    told = "import sys; print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{told}"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.splitlines()[-1].split())


@every_module
def test_a_module_is_short_enough_to_read(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LIMIT


@every_module
def test_a_module_says_in_its_first_line_what_it_is_for(path):
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    assert re.match(r'r?"""\S.*', first)


def words_in(schema) -> set[str]:
    """Returns the names of fields and the values of enumerations in a schema."""
    found = set(schema.get("properties", {})) | {str(value) for value in schema.get("enum", ())}
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return found.union(*(words_in(part) for part in inner))


@pytest.fixture(scope="session")
def vocabulary():
    """Every name that a skill may write as code: tools, their fields and values, and errors."""
    from typing import get_args

    from atk_mcp import reference
    from atk_mcp.schemas import input_schema, output_schema
    from operations.registry import all_operations
    from storage.schema.validations import Result

    known = set(get_args(Result)) | {reference.code(error) for error in reference.all_errors()}
    for operation in all_operations().values():
        known |= {operation.name} | words_in(input_schema(operation.request))
        known |= words_in(output_schema(operation.response))
    return known


@pytest.mark.parametrize("path", SKILLS, ids=lambda path: path.parent.name)
def test_a_skill_names_only_tools_fields_and_errors_that_exist(path, vocabulary):
    named = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", path.read_text(encoding="utf-8")))
    assert sorted(named - vocabulary) == []


def test_tests_are_no_packages_that_could_stand_in_for_ours():
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_serving_loads_no_operation_no_store_and_nothing_heavy():
    loaded = loaded_by("import atk_mcp.server")
    assert not loaded & {"git", "torch", "trl", "transformers", "numpy", "pandas", "operations", "pyarrow"}


def test_the_inspector_loads_no_mcp_and_starts_without_models():
    loaded = loaded_by("import atk_mcp.inspector")
    assert not loaded & {"mcp", "mcp_types", "pydantic", "git", "operations"}
    assert not loaded_by("from atk_mcp.inspector import main; main(['call', 'get_status'])") & {"mcp", "mcp_types"}


def test_importing_opens_no_file_but_modules_and_starts_nothing():
    """Importing does no work: no network, no process, nothing written, nothing read but code."""
    code = """
import sys
import mcp, pydantic, git, orjson, cryptography.hazmat.primitives.ciphers.aead  # their own imports are theirs
seen = []
def watch(event, args):
    if event in {"subprocess.Popen", "os.posix_spawn", "os.fork", "socket.connect", "os.mkdir", "os.rename"}:
        seen.append((event, str(args)[:200]))
    if event == "open" and isinstance(args[0], str) and not args[0].endswith((".py", ".pyc", ".so")):
        # compiled caches are written under names that end in .pyc.<number>
        if ".pyc." not in args[0]:
            seen.append((event, args[0]))
sys.addaudithook(watch)
sys.dont_write_bytecode = True
import importlib, pkgutil
for name in ("storage", "operations", "atk_mcp"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(seen)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_committed_files_name_no_machine_and_no_registry():
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, cwd=ROOT).stdout
    forbidden = [str(ROOT), str(Path.home()) + "/", "pypi" + ".org/simple", "registry.npmjs" + ".org"]
    found = []
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            text = (ROOT / name).read_bytes().decode("utf-8", "replace")
            found += [f"{name}: {word}" for word in forbidden if word in text]
    assert found == []
