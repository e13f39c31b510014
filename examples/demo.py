"""Plants an error in the output of an attention layer, and finds it.

The golden side computes softmax attention in one piece; the target side does it tile by tile, as a fused
kernel would, and in one block of rows forgets to rescale the sum when the running maximum changes.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

# See tests/python/conftest.py.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import numpy as np
import torch

import ulpscope

BATCH, HEADS, TOKENS, WIDTH, TILE = 2, 4, 64, 32, 16
BROKEN_BLOCK = (1, 2, 3)  # batch, head, block of rows


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The definition."""
    return torch.softmax(query @ key.mT / WIDTH**0.5, dim=-1) @ value


def tiled_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, forget_rescaling: bool
) -> torch.Tensor:
    """The same for one block of rows, over tiles of keys, with a running maximum."""
    largest = torch.full((TILE, 1), -torch.inf)
    total = torch.zeros(TILE, 1)
    output = torch.zeros(TILE, WIDTH)
    for start in range(0, TOKENS, TILE):
        scores = query @ key[start : start + TILE].T / WIDTH**0.5
        raised = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        scale = torch.exp(largest - raised)
        weights = torch.exp(scores - raised)
        total = (total if forget_rescaling else total * scale) + weights.sum(dim=-1, keepdim=True)
        output = output * scale + weights @ value[start : start + TILE]
        largest = raised
    return output / total


def main() -> int:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, BATCH, HEADS, TOKENS, WIDTH)
    golden = attention(query, key, value)
    target = torch.empty_like(golden)
    for batch, head, block in np.ndindex(BATCH, HEADS, TOKENS // TILE):
        rows = slice(block * TILE, (block + 1) * TILE)
        target[batch, head, rows] = tiled_attention(
            query[batch, head, rows],
            key[batch, head],
            value[batch, head],
            forget_rescaling=(batch, head, block) == BROKEN_BLOCK,
        )

    with tempfile.TemporaryDirectory() as folder:
        ulpscope.save(Path(folder, "target.pt"), target)
        ulpscope.save(Path(folder, "golden.npy"), golden)

        print("$ ulpscope diff target.pt golden.npy -p 5", flush=True)
        command = [Path(sys.executable).with_name("ulpscope"), "diff", "target.pt", "golden.npy", "-p", "5"]
        code = subprocess.run(command, cwd=folder).returncode

        result = ulpscope.diff(Path(folder, "target.pt"), Path(folder, "golden.npy"))

    batch, head, row, _ = (int(index) for index in np.unravel_index(result.worst_index, golden.shape))
    found = (batch, head, row // TILE)
    print(f"\nplanted in batch, head, block {BROKEN_BLOCK}; the worst element lies in {found}")
    return 0 if (code, found) == (1, BROKEN_BLOCK) else 1


if __name__ == "__main__":
    sys.exit(main())
