"""The Trainer of transformers: one callback records every step.

A small GPT-2 (built here, nothing is downloaded) is trained with two implementations of attention. The runs
make different calls, and agree. Needs transformers and accelerate. Run it: python examples/hf_trainer.py
"""

import sys
import tempfile
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import ulpscope
from ulpscope.integrations.transformers import CaptureCallback


def train(folder: Path, attention: str) -> None:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=64,
        n_positions=16,
        n_embd=32,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation=attention,
    )
    tokens = torch.randint(0, 64, (8, 16))
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=TrainingArguments(
            output_dir=str(folder / "trainer"),
            max_steps=2,
            per_device_train_batch_size=4,
            optim="sgd",
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in tokens],
        # Steps are updates of the weights. Evaluation would not be recorded.
        callbacks=[CaptureCallback(folder / attention, level="mix", task="tensor")],
    )
    trainer.train()


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder, "eager")
        train(folder, "sdpa")
        result = ulpscope.compare(folder / "sdpa", folder / "eager")
        print(f"{result.agreement}: {result.reason}")
        print(f"\n{result.explain()}")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
