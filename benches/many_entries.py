#!/usr/bin/env python3
"""How long a comparison of millions of entries takes, and how much memory.

    benches/many_entries.py FOLDER [--ulpscope PROGRAM] [--entries 5000000] [--runs 1]

Two dumps of statistics are generated: a training step of a transformer with many micro-batches, forward and
backward, with modules, stacks and sources as Ulpscope records them. The target has errors of rounding
everywhere and one wrong call. `ulpscope compare` reads them in a process of its own and must find that call.
Prints the medians as JSON, and deletes the dumps.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

BLOCKS = 96
WIDTH = 1024
# Entries of a block in one micro-batch, forward and backward; see `Program.forward` and `Program.backward`.
ENTRIES_PER_BLOCK = 55
# The number of the `gelu` that is wrong in the target, in the first micro-batch, and by how much.
WRONG_CALL = BLOCKS // 2
WRONG_FACTOR = 1.01

# The peak memory of a process includes that of its parent: start it from a small one.
LAUNCHER = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
wall = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([ended.returncode, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
sys.stderr.buffer.write(ended.stderr)
"""


class Program:
    """The calls of one training step, written as they are made."""

    def __init__(self, folder: Path, noise: float, wrong: int | None) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.noise = noise
        # The number of the `gelu` that returns a different result.
        self.wrong = wrong
        self.numbers: dict[str, int] = {}
        self.values = random.Random(1)
        self.errors = random.Random(2)
        self.dump: TextIO
        self.parents: TextIO
        self.stacks: dict[str, list[str]] = {}
        self.separator = ""

    def tensor(self, shape: str, source: str | None = None, requires_grad: str = "true") -> str:
        """A new tensor: numbers of the golden, with an error of rounding in the target."""
        size = self.values.uniform(1.0, 4.0) * (1.0 + self.noise * self.errors.uniform(-1.0, 1.0))
        return self.described(shape, size, source, requires_grad)

    def described(self, shape: str, size: float, source: str | None, requires_grad: str = "true") -> str:
        """A tensor of a size, as a dump describes it."""
        said = f',"source":"{source}"' if source else ""
        return (
            f'{{"type":"torch.Tensor","dtype":"torch.float32","shape":{shape},'
            f'"Max":{size},"Min":{-0.9 * size},'
            f'"Mean":{0.01 * size},"Norm":{300.0 * size},"requires_grad":{requires_grad}{said}}}'
        )

    def number(self, name: str) -> int:
        """The number of the next call of a name."""
        number = self.numbers.get(name, 0)
        self.numbers[name] = number + 1
        return number

    def write(self, key: str, body: str, parent: str | None, line: str) -> None:
        """Writes a call."""
        self.dump.write(f'{self.separator}\n"{key}":{body}')
        said = f'"{parent}"' if parent else "null"
        self.parents.write(f'{self.separator}\n"{key}":{said}')
        self.stacks.setdefault(line, []).append(key)
        self.separator = ","

    def forward(self, batch: int, block: int, source: str) -> str:
        """A block: norm, linear, gelu, linear, add. Returns the name of its result."""
        shape, wide, row = f"[8,128,{WIDTH}]", f"[{WIDTH},{WIDTH}]", f"[{WIDTH}]"
        path = f"Module.blocks.{block}"
        whole = f"{path}.Block.forward.{batch}"
        norm = f"{path}.norm.LayerNorm.forward.{batch}"
        before = source

        def call(name: str, parts: list[str], parent: str) -> str:
            key = f"{name}.{self.number(name)}.forward"
            result = self.tensor(shape)
            if name == "Functional.gelu" and self.numbers[name] - 1 == self.wrong:
                size = 2.0 * WRONG_FACTOR
                result = self.described(shape, size, None)
            elif name == "Functional.gelu" and self.numbers[name] - 1 == WRONG_CALL:
                result = self.described(shape, 2.0, None)
            body = f'{{"input_args":[{",".join(parts)}],"input_kwargs":{{}},"output":[{result}]}}'
            self.write(
                key,
                body,
                parent,
                f"File model.py, line {block}{len(parts)}, in forward, \\n return {name}(x)",
            )
            return f"{key}.output.0"

        def module(key: str, parts: list[str], parameters: str, parent: str | None) -> None:
            result = self.tensor(shape)
            body = f'{{"input_args":[{parts[0]}],"input_kwargs":{{}},"output":[{result}]{parameters}}}'
            self.write(key, body, parent, f"File model.py, line {block}, in forward, \\n x = self.block(x)")

        def parameter(of: str, kind: str) -> str:
            return self.tensor(wide if kind == "weight" else row, f"parameter:blocks.{block}.{of}.{kind}")

        weights = [parameter("norm", "weight"), parameter("norm", "bias")]
        scalar = f'{{"type":"int","value":{WIDTH}}}'
        normed = call("Functional.layer_norm", [self.tensor(shape, before), f"[{scalar}]", *weights], norm)
        of_norm = f',"parameters":{{"weight":{weights[0]},"bias":{weights[1]}}}'
        module(norm, [self.tensor(shape, before)], of_norm, whole)
        for of in ("fc", "proj"):
            linear = f"{path}.{of}.Linear.forward.{batch}"
            weights = [parameter(of, "weight"), parameter(of, "bias")]
            made = call("Functional.linear", [self.tensor(shape, normed), *weights], linear)
            parameters = f',"parameters":{{"weight":{weights[0]},"bias":{weights[1]}}}'
            module(linear, [self.tensor(shape, normed)], parameters, whole)
            normed = made
            if of == "fc":
                normed = call("Functional.gelu", [self.tensor(shape, normed)], whole)
        added = call("Tensor.__add__", [self.tensor(shape, before), self.tensor(shape, normed)], whole)
        module(whole, [self.tensor(shape, before)], "", None)
        return added

    def backward(self, batch: int, block: int, last: int) -> None:
        """The gradients of a block, in the opposite order. `last` is its number over all micro-batches."""
        shape, wide, row = f"[8,128,{WIDTH}]", f"[{WIDTH},{WIDTH}]", f"[{WIDTH}]"
        path = f"Module.blocks.{block}"
        calls = [
            ("Tensor.__add__", last, [shape, shape], None),
            ("Functional.linear", 2 * last + 1, [shape, wide, row], f"{path}.proj.Linear.backward.{batch}"),
            ("Functional.gelu", last, [shape], None),
            ("Functional.linear", 2 * last, [shape, wide, row], f"{path}.fc.Linear.backward.{batch}"),
            ("Functional.layer_norm", last, [shape, row, row], f"{path}.norm.LayerNorm.backward.{batch}"),
        ]
        for name, number, results, module in calls:
            gradients = ",".join(self.tensor(shape, requires_grad="false") for shape in results)
            arrived = self.tensor(shape, requires_grad="false")
            line = f"File train.py, line {len(results)}, in step, \\n loss.backward()"
            self.write(
                f"{name}.{number}.backward", f'{{"input":[{arrived}],"output":[{gradients}]}}', module, line
            )
            if module:
                back = self.tensor(shape, requires_grad="false")
                self.write(module, f'{{"input":[{arrived}],"output":[{back}]}}', None, line)

    def make(self, batches: int) -> None:
        """Writes all of it."""
        header = '{"task":"statistics","level":"mix","framework":"pytorch","dump_data_dir":null,"data":{'
        with (
            (self.folder / "dump.json").open("w") as dump,
            (self.folder / "construct.json").open("w") as parents,
        ):
            self.dump, self.parents = dump, parents
            dump.write(header)
            parents.write("{")
            for batch in range(batches):
                source = "outside"
                for block in range(BLOCKS):
                    source = self.forward(batch, block, source)
                for block in reversed(range(BLOCKS)):
                    self.backward(batch, block, batch * BLOCKS + block)
            dump.write("\n}}")
            parents.write("\n}")
        with (self.folder / "stack.json").open("w") as stacks:
            numbered = enumerate(self.stacks.items())
            for part in as_json(
                f'"{number}":{json.dumps([keys, [line]])}' for number, (line, keys) in numbered
            ):
                stacks.write(part)


def as_json(members: Iterator[str]) -> Iterator[str]:
    """The text of an object, part by part."""
    yield "{"
    for number, member in enumerate(members):
        yield ("," if number else "") + "\n" + member
    yield "\n}"


def main() -> None:
    """Makes the dumps, compares them and prints what it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ulpscope", default="target/release/ulpscope")
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the dumps in the folder")
    options = parser.parse_args()
    folder: Path = options.folder
    dumps = [folder / "target", folder / "golden"]
    batches = max(1, round(options.entries / BLOCKS / ENTRIES_PER_BLOCK))
    if not all(dump.exists() for dump in dumps):
        for dump, noise, wrong in zip(dumps, (1e-7, 0.0), (WRONG_CALL, None), strict=True):
            print(f"generating {dump}", file=sys.stderr)
            Program(dump, noise, wrong).make(batches)
    out = folder / "result"
    command = [options.ulpscope, "compare", *map(str, dumps), "--output", str(out)]
    taken = []
    for _ in range(options.runs):
        shutil.rmtree(out, ignore_errors=True)
        launched = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
        ended = subprocess.run(launched, capture_output=True, text=True, check=True)
        code, wall, cpu, peak = json.loads(ended.stdout)
        if code != 1:
            sys.exit(f"{command} ended with {code} instead of 1:\n{ended.stderr}")
        taken.append((wall, cpu, peak))
    found = (out / "result.json").read_text()
    if f"Functional.gelu.{WRONG_CALL}.forward" not in found:
        sys.exit(f"{out}: the wrong call was not found")
    wall, cpu, peak = (round(statistics.median(column), 1) for column in zip(*taken, strict=True))
    size = sum(file.stat().st_size for dump in dumps for file in dump.glob("*")) >> 20
    print(json.dumps({"dumps_mb": size, "wall_s": wall, "cpu_s": cpu, "peak_mb": peak}))
    shutil.rmtree(out)
    if not options.keep:
        for dump in dumps:
            shutil.rmtree(dump)


if __name__ == "__main__":
    main()
