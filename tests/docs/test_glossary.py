"""The glossary has every word that a reader of the tools, the Skills and the records meets."""

import re
from pathlib import Path
from typing import get_args

from storage.schema import (
    approvals,
    assessments,
    batches,
    candidates,
    datasets,
    evidence,
    knowledge,
    rounds,
    validations,
)

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (.+) \|$", TEXT, re.MULTILINE)[2:]
WORDS = [row[0] for row in ROWS]


def entries():
    """Returns each word of the first column, lower case, several in a row apart."""
    return {part.strip().lower() for word in WORDS for part in word.split(",")}


def test_every_kind_of_record_has_an_entry():
    from storage.schema.kinds import KINDS

    spelled = {"spec": "specification", "external_validation": "external validation"}
    assert {spelled.get(kind, kind) for kind in KINDS} - entries() == set()


def test_the_words_of_the_loop_have_entries():
    wanted = {
        "project", "case", "dataset", "batch", "record", "slot", "execution", "assessment", "round", "issue",
        "candidate", "revision", "left", "right", "validation", "decision", "error ledger", "worktree lease", "b0",
        "usage", "source group", "judger", "dimension", "verdict", "gate", "plan", "margin", "journal", "intent",
    }  # fmt: skip
    assert wanted - entries() == set()


def test_every_state_that_an_answer_can_name_is_told():
    kinds = (
        approvals.HowConfirmed, assessments.Readiness, assessments.Validity, assessments.Verdict, batches.BatchStatus,
        candidates.Candidate.model_fields["change_kind"].annotation,
        candidates.Candidate.model_fields["status"].annotation,
        candidates.Decision.model_fields["action"].annotation, candidates.Disposition, candidates.RootCauseStatus,
        datasets.Usage, evidence.ExecutionStatus, knowledge.KnowledgeStatus, rounds.Objective, rounds.Repeatability,
        rounds.RoundStatus, rounds.Rule, validations.QuestionStatistics.model_fields["question"].annotation,
        validations.Result,
    )  # fmt: skip
    told = set(re.findall(r"`(\w+)`", TEXT))
    assert {value for kind in kinds for value in get_args(kind)} - told == set()


def test_words_marked_as_having_an_entry_have_one():
    marked = {word.lower() for word in re.findall(r"(?<!\w)\*([^*\n]+)\*", TEXT)} - {"italics"}

    def known(word):
        singular = {word, word.removesuffix("s"), word.removesuffix("es")}
        return bool(singular & entries())

    assert {word for word in marked if not known(word)} == set()


def test_no_word_has_two_entries():
    assert len(WORDS) == len(set(WORDS))


def test_entries_are_in_order():
    assert sorted(WORDS, key=str.lower) == WORDS
