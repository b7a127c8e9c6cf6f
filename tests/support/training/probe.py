"""Measures in a process of its own what TRL's trainer makes of rows with weights; prints what it found as JSON.

Everything is made here: the tokenizer of bytes, a model of random weights in float64. Nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRL_EXPERIMENTAL_SILENCE": "1"}
sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from operations.trajectories.training_rows import rendered, weighted_trainer
from tests.support.training.rows import a_row, template

SPECIALS = ("<|pad|>", "<|im_start|>", "<|im_end|>", "<call>", "</call>", "<think>", "</think>")
RATE = 0.5


def a_tokenizer() -> Any:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(SPECIALS))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|pad|>")
    tokenizer.chat_template = template()
    return tokenizer


def a_model(tokenizer: Any) -> Any:
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=512, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return LlamaForCausalLM(config).double()


def a_config(folder: str, **more: Any) -> Any:
    return SFTConfig(
        output_dir=folder, max_steps=1, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        learning_rate=RATE, lr_scheduler_type="constant", optim="sgd", max_grad_norm=0.0, weight_decay=0.0,
        report_to=[], use_cpu=True, bf16=False, save_strategy="no", disable_tqdm=True, seed=1, max_length=None,
        **{"remove_unused_columns": False, "dataset_kwargs": {"skip_prepare_dataset": True}, **more},
    )  # fmt: skip


def by_hand(model: Any, rows: list[dict[str, Any]]) -> Any:
    """The loss of some rows, one token after another, from nothing but the model's scores."""
    total, counted = 0.0, 0
    for row in rows:
        scores = model(input_ids=torch.tensor([row["input_ids"]])).logits[0]
        for place in range(1, len(row["input_ids"])):
            if row["labels"][place] == -100:
                continue
            before = scores[place - 1]
            surprise = torch.logsumexp(before, 0) - before[row["labels"][place]]
            total, counted = total + row["weights"][place] * surprise, counted + 1
    return total / counted


def trained(rows: list[dict[str, Any]], tokenizer: Any, *, usual: bool = False) -> dict[str, Any]:
    """Lets TRL take one step on four rows in two batches, and takes the same step by hand."""
    model, twin = a_model(tokenizer), a_model(tokenizer)
    losses: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        if usual:
            bare = [{name: row[name] for name in ("input_ids", "labels")} for row in rows]
            config = a_config(folder, remove_unused_columns=True, dataset_kwargs=None)
            trainer = SFTTrainer(
                model=model, args=config, train_dataset=Dataset.from_list(bare), processing_class=tokenizer
            )
        else:
            trainer = weighted_trainer(rows, tokenizer, model, a_config(folder))
        computed = trainer.compute_loss

        def compute_loss(*given: Any, **named: Any) -> Any:
            loss = computed(*given, **named)
            losses.append(float(loss.detach()))
            return loss

        trainer.compute_loss = compute_loss
        trainer.train()
    loss = by_hand(twin, rows)
    loss.backward()
    pairs = list(zip(model.parameters(), twin.parameters(), strict=True))
    apart = max(float((p.detach() - (q.detach() - RATE * q.grad)).abs().max()) for p, q in pairs)
    moved = max(float((p.detach() - q.detach()).abs().max()) for p, q in pairs)
    return {"trainer": sum(losses), "by_hand": float(loss), "parameters_apart": apart, "moved": moved}


def main() -> None:
    tokenizer = a_tokenizer()
    rows = [a_row("add 1 and 2", "3"), a_row("add 2 and 2", "4"), a_row("sum", "33"), a_row("more of it", "5")]
    found: dict[str, Any] = {}
    for name, change in CHANGES.items():
        changed = [change(json.loads(json.dumps(row))) for row in rows]
        found[name] = trained([rendered(row, tokenizer) for row in changed], tokenizer)
    ones = [rendered(CHANGES["all_ones"](row), tokenizer) for row in rows]
    found["usual_trainer"] = trained(ones, tokenizer, usual=True)
    first = rendered(rows[0], tokenizer)
    learned = [token for token, label in zip(first["input_ids"], first["labels"], strict=True) if label != -100]
    found["learned"] = tokenizer.decode(learned)
    json.dump(found, sys.stdout)


def weighted(*weights: float) -> Any:
    return lambda row: {**row, "segment_weights": list(weights)}


def masked(*mask: int) -> Any:
    return lambda row: {**row, "completion_mask": list(mask)}


CHANGES = {
    "as_projected": lambda row: row,
    "all_ones": weighted(0, 1, 1, 0, 1),
    "call_counts_five_times": weighted(0, 1, 5, 0, 1),
    "call_left_out": masked(0, 1, 0, 0, 1),
    "only_the_answer": masked(0, 0, 0, 0, 1),
    "result_counts_too": lambda row: {**row, "segment_weights": [0, 1, 2, 0.25, 1], "completion_mask": [0, 1, 1, 1, 1]},
}

if __name__ == "__main__":
    main()
