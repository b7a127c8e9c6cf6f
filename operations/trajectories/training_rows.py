"""Turns rows of messages into tokens with labels and weights, and makes a trainer whose loss follows them.

The rest of the library needs none of this. A tokenizer is whatever has the methods of `transformers`' fast ones; TRL is
imported only when a trainer is asked for.
"""

from __future__ import annotations

import importlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from operations.trajectories.projections.sft import IGNORED


class RowNotRendered(ValueError):
    """A chat template does not show a row in a way that its weights could be put to tokens."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a message stands in the text, and what it counts."""

    start: int
    end: int
    weight: float


def rendered(row: Mapping[str, Any], tokenizer: Any) -> dict[str, list[Any]]:  # noqa: ANN401 - a tokenizer
    """Returns a row of `sft_messages` as tokens: `input_ids`, `labels` and `weights`, one item a token.

    A token counts with the weight of the message in which it begins; what the template puts around messages, and the
    opening of an answer that the agent does not write itself, does not count. Labels that do not count are -100.

    Args:
        row: `messages`, `segment_weights`, `completion_mask`, and `tools` where there are any.
        tokenizer: A fast tokenizer with a chat template.

    Raises:
        RowNotRendered: The template fails, changes earlier messages when later ones follow, leaves a message out
            whose weight is not 0, or does not show what it says; or a message holds a special token as text.
        ValueError: Weights, mask and messages differ in number, or a weight is below 0.
    """
    messages, weights = row["messages"], _weights_of(row)
    text, spans = _placed(messages, weights, row.get("tools"), tokenizer)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = [int(one) for one in encoded["input_ids"]]
    token_weights = list(_token_weights(encoded["offset_mapping"], spans))
    return {
        "input_ids": ids,
        "labels": [token if weight else IGNORED for token, weight in zip(ids, token_weights, strict=True)],
        "weights": token_weights,
    }


def read_rows(lines: Iterable[bytes | str]) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file of JSON lines as they are.

    A table with typed columns is no way to read them: it gives the arguments of every call the fields of all others.
    """
    for line in lines:
        if line.strip():
            yield json.loads(line)


def collated(rows: Sequence[Mapping[str, Sequence[Any]]], pad_token_id: int) -> dict[str, list[list[Any]]]:
    """Returns rows of tokens as one batch, padded at the right: `input_ids`, `attention_mask`, `labels`, `weights`."""
    longest = max(len(row["input_ids"]) for row in rows)
    fill = {"input_ids": pad_token_id, "labels": IGNORED, "weights": 0.0}
    batch = {
        name: [[*row[name], *[value] * (longest - len(row[name]))] for row in rows] for name, value in fill.items()
    }
    masks = [[1] * len(row["input_ids"]) + [0] * (longest - len(row["input_ids"])) for row in rows]
    return {**batch, "attention_mask": masks}


def weighted_loss(logits: Any, labels: Any, weights: Any, items: Any = None) -> Any:  # noqa: ANN401 - tensors
    """Returns the sum of weight times cross entropy over the tokens that count, divided by their number.

    With all weights 1 this is the usual loss; a weight of 2 lets a token count twice.

    Args:
        logits: Tensor [batch, length, vocabulary].
        labels: Tensor [batch, length], -100 where nothing counts; position t is predicted from t - 1.
        weights: Tensor [batch, length].
        items: By what to divide; None for the number of labels of this batch that count. A trainer that collects
            several batches for one step gives the number of all of them.
    """
    torch = _imported("torch")
    labels, weights = labels[:, 1:], weights[:, 1:]
    each = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="none"
    )
    total = (each * weights.flatten().to(each.dtype)).sum()
    return total / (items if items is not None else (labels != IGNORED).sum().clamp(min=1))


def weighted_trainer(rows: Sequence[Mapping[str, Sequence[Any]]], tokenizer: Any, model: Any, config: Any) -> Any:  # noqa: ANN401 - TRL's
    """Returns a trainer of TRL for rows of tokens, whose loss is `weighted_loss`.

    Args:
        rows: Of `rendered`, or of `sft_tokens`; a log-probability or metadata beside the tokens is left alone.
        tokenizer: The one that made the tokens; its `pad_token_id` fills up.
        model: A causal language model.
        config: A `trl.SFTConfig`; it has to leave the rows as they are, with `remove_unused_columns=False` and
            `dataset_kwargs={"skip_prepare_dataset": True}`.

    Raises:
        ValueError: The configuration lets TRL prepare the rows, which would lose the weights.
        ImportError: TRL is not installed; the extra `train` brings it.
    """
    if config.remove_unused_columns or not (config.dataset_kwargs or {}).get("skip_prepare_dataset"):
        raise ValueError(
            "config would lose the weights; it needs remove_unused_columns=False and "
            'dataset_kwargs={"skip_prepare_dataset": True}'
        )
    trl, torch, datasets = map(_imported, ("trl", "torch", "datasets"))

    def collate(features: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, Any]:
        return {name: torch.tensor(value) for name, value in collated(features, tokenizer.pad_token_id).items()}

    def compute_loss(
        self: Any,  # noqa: ANN401, ARG001 - a method of the trainer
        model: Any,  # noqa: ANN401
        inputs: Mapping[str, Any],
        return_outputs: bool = False,  # noqa: FBT001, FBT002 - TRL's
        num_items_in_batch: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        loss = weighted_loss(outputs.logits, inputs["labels"], inputs["weights"], num_items_in_batch)
        return (loss, outputs) if return_outputs else loss

    kept = [{name: list(row[name]) for name in ("input_ids", "labels", "weights")} for row in rows]
    trainer = type("WeightedTrainer", (trl.SFTTrainer,), {"compute_loss": compute_loss})
    return trainer(
        model=model,
        args=config,
        data_collator=collate,
        train_dataset=datasets.Dataset.from_list(kept),
        processing_class=tokenizer,
    )


def _imported(name: str) -> Any:  # noqa: ANN401 - a module
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        raise ImportError(
            f"training needs {missing.name}, which is not installed: pip install 'atk-mcp[train]'"
        ) from missing


def _weights_of(row: Mapping[str, Any]) -> list[float]:
    messages, weights, mask = row["messages"], row["segment_weights"], row["completion_mask"]
    if not len(messages) == len(weights) == len(mask):
        raise ValueError(
            f"{len(messages)} messages have {len(weights)} segment_weights and {len(mask)} completion_mask; "
            "each needs one item a message"
        )
    if wrong := [weight for weight in weights if not weight >= 0]:
        raise ValueError(f"segment_weights has {wrong[0]}; a weight is a number from 0 up")
    return [float(weight) if one else 0.0 for weight, one in zip(weights, mask, strict=True)]


def _placed(
    messages: Sequence[Mapping[str, Any]],
    weights: Sequence[float],
    tools: Any,  # noqa: ANN401 - JSON
    tokenizer: Any,  # noqa: ANN401
) -> tuple[str, list[_Span]]:
    """Returns the text of the whole row and where each message that counts stands in it."""

    def shown(count: int, *, prompt: bool = False, instead: str | None = None) -> str:
        options = {"tools": tools} if tools else {}
        given = list(messages[:count]) if instead is None else [{"role": "assistant", "content": instead}]
        try:
            return str(tokenizer.apply_chat_template(given, tokenize=False, add_generation_prompt=prompt, **options))
        except Exception as problem:  # a template is a program of its own and raises what it likes
            said = f"the chat template fails on the first {count} messages: {problem}"
            raise RowNotRendered(f"{said}; take one that knows tools and arguments as objects") from problem

    _check_markup(messages, tokenizer)
    whole = shown(len(messages))
    spans: list[_Span] = []
    for number, weight in enumerate(weights):
        if not weight:
            continue
        before = shown(number) if number else ""
        after = shown(number + 1)
        if not (whole.startswith(after) and after.startswith(before)):
            raise RowNotRendered(
                f"message {number}: the chat template shows earlier messages otherwise when others follow, so its "
                "tokens cannot be told; take a template that keeps what stands before"
            )
        # Before a first message stands what the template opens with, whatever that message says.
        opened = (
            shown(number, prompt=True)
            if number
            else _beginning(after, *(shown(1, instead=text) for text in ("a", "b")))
        )
        start = len(opened) if after.startswith(opened) and len(opened) > len(before) else len(before)
        _check_shown(number, messages[number], after[start:])
        spans.append(_Span(start, _end_of_answer(after, tokenizer.eos_token), weight))
    return whole, spans


def _beginning(*texts: str) -> str:
    """Returns what all of some texts begin with."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return texts[0][: sum(1 for _ in same)]


def _check_markup(messages: Sequence[Mapping[str, Any]], tokenizer: Any) -> None:  # noqa: ANN401 - a tokenizer
    """Refuses a text that would be taken for the marks between messages, and so for words of somebody else."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    marks = dict.fromkeys([tokenizer.eos_token, *(token.content for token in added if token.special)])
    for number, message in enumerate(messages):
        text = json.dumps(message, ensure_ascii=False)
        if held := next((mark for mark in marks if mark and mark in text), None):
            raise RowNotRendered(
                f"message {number} holds {held!r}, which is a mark of the tokenizer's: what follows it would be taken "
                "for another's message; leave this row out"
            )


def _end_of_answer(text: str, end_of_turn: str | None) -> int:
    """Returns where an answer ends: what the template puts after the token that ends a turn is not the agent's."""
    bare = text.rstrip()
    return len(bare) if end_of_turn and bare.endswith(end_of_turn) else len(text)


def _check_shown(number: int, message: Mapping[str, Any], text: str) -> None:
    """Refuses a message of which the template does not show what is to be learned."""
    wanted = [message.get("content") or "", message.get("reasoning_content") or ""]
    wanted += [call["function"]["name"] for call in message.get("tool_calls") or ()]
    for one in wanted:
        if isinstance(one, str) and one.strip() and one.strip() not in text:
            raise RowNotRendered(
                f"message {number}: the chat template does not show {one.strip()[:40]!r}, so nobody would learn it; "
                "take another template, or leave reasoning out of the rows"
            )
    if not text.strip():
        raise RowNotRendered(f"message {number} has a weight, and the chat template shows nothing of it")


def _token_weights(offsets: Iterable[tuple[int, int]], spans: Sequence[_Span]) -> Iterator[float]:
    """Yields the weight of the message in which each token begins; a token without text counts nowhere."""
    starts = [span.start for span in spans]
    for start, end in offsets:
        place = bisect_right(starts, start) - 1
        inside = place >= 0 and start < spans[place].end and start < end
        yield spans[place].weight if inside else 0.0
