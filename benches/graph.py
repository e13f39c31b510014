#!/usr/bin/env python3
"""How long a large graph of Ascend's compiler takes to open, and how much memory.

    benches/graph.py [--ulpscope PROGRAM] [--megabytes 500] [--runs 3]

A graph in text form is generated: operators with the attributes and tensor descriptions that GE writes, with
weights in some of them. `ulpscope graph ls` then reads it in a process of its own. Prints the median as JSON.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# An operator as GE writes it; about 3 kB.
OPERATOR = """  op {{
    name: "model/layer{layer}/block{at}/{kind}"
    type: "{kind}"
    input: "model/layer{layer}/block{before}/{previous}:0"
    input: "model/layer{layer}/weights{at}:0"
    input: "atomic_addr_clean{at}:-1"
    id: {at}
    stream_id: 5
    input_name: "x"
    input_name: "filter"
    src_name: "model/layer{layer}/block{before}/{previous}"
    src_index: 0
    dst_name: "model/layer{layer}/block{after}/Relu"
    dst_index: 0
    workspace_bytes: 1024
    attr {{
      key: "_datadump_original_op_names"
      value {{ list {{ s: "layer{layer}/{at}/a" s: "layer{layer}/{at}/b" }} }}
    }}
    attr {{ key: "pass_name" value {{ list {{ s: "TbeConvBiasaddFusionPass" val_type: VT_LIST_STRING }} }} }}
    attr {{ key: "model/layer{layer}/block{at}/{kind}_kernelname" value {{ s: "te_{kind}_{at:08x}_1" }} }}
    attr {{ key: "strides" value {{ list {{ i: 1 i: 1 i: 2 i: 2 val_type: VT_LIST_INT }} }} }}
    attr {{ key: "pads" value {{ list {{ i: 0 i: 0 i: 0 i: 0 val_type: VT_LIST_INT }} }} }}
    attr {{ key: "_op_infer_depends_flag" value {{ b: true }} }}
    attr {{ key: "_ge_attr_op_kernel_lib_name" value {{ s: "AIcoreEngine" }} }}
    attr {{ key: "tvm_blockdim" value {{ i: 32 }} }}
    attr {{ key: "compile_info_json" value {{ s: "{json}" }} }}
    input_desc {{
{desc}    }}
    input_desc {{
{desc}    }}
    output_desc {{
{desc}      attr {{ key: "_datadump_origin_name" value {{ s: "layer{layer}/{at}/b" }} }}
      attr {{ key: "_datadump_origin_output_index" value {{ i: 0 }} }}
      attr {{ key: "_datadump_origin_format" value {{ s: "NHWC" }} }}
    }}
  }}
"""

DESC = """      dtype: DT_FLOAT16
      shape { dim: 32 dim: 4 dim: 56 dim: 56 dim: 16 }
      layout: "NC1HWC0"
      attr { key: "origin_format" value { s: "NHWC" } }
      attr { key: "origin_shape" value { list { i: 32 i: 56 i: 56 i: 64 val_type: VT_LIST_INT } } }
      attr { key: "shape_range" value { list_list_int { list_list_i { list_i: 1 list_i: 64 } } } }
      size: 12845056 device_type: "NPU" real_dim_cnt: 5
"""

# A weight of a constant operator, as escaped bytes.
WEIGHT = """  op {{
    name: "model/layer{layer}/weights{at}" type: "Const"
    attr {{ key: "value" value {{ t {{ data: "{data}" }} }} }}
  }}
"""

KINDS = ["Conv2D", "Relu", "BatchMatMulV2", "Add", "LayerNorm", "TransData", "Cast"]


def generate(path: Path, size: int) -> int:
    """Writes a graph of at least this many bytes; returns the number of operators."""
    weight = "\\000\\074\\000\\300" * 1024
    words = '{\\"vars\\": [1, 2, 3], \\"block\\": 32}' * 8
    at = operators = 0
    with path.open("w") as out:
        out.write('name: "model"\ngraph {\n  name: "ge_default_1"\n')
        written = 0
        while written < size:
            kind, previous = KINDS[at % len(KINDS)], KINDS[(at - 1) % len(KINDS)]
            names = {"kind": kind, "previous": previous, "json": words, "desc": DESC}
            text = OPERATOR.format(layer=at // 100, at=at, before=at - 1, after=at + 1, **names)
            operators += 1
            if at % 10 == 0:
                text += WEIGHT.format(layer=at // 100, at=at, data=weight)
                operators += 1
            written += out.write(text)
            at += 1
        out.write("}\n")
    return operators


def measure(program: str, path: Path) -> tuple[float, float, int, int]:
    """Seconds, those of a processor, peak memory in bytes, and the operators that were counted."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [program, "graph", "ls", str(path), "--name", "layer0/block1/"]
    done = subprocess.run(command, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{program} graph ls failed")
    operators = int(done.stdout.split(b"(")[1].split()[0])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, processor, after.ru_maxrss * 1024, operators


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ulpscope", default="ulpscope", help="the program to measure")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ge_proto_00000001_Build.txt"
        written = generate(path, asked.megabytes * 1_000_000)
        runs = [measure(asked.ulpscope, path) for _ in range(asked.runs)]
        assert all(operators == written for *_, operators in runs), "every operator is counted"
        size = path.stat().st_size
    print(
        json.dumps(
            {
                "bytes": size,
                "operators": written,
                "seconds": round(statistics.median(seconds for seconds, *_ in runs), 2),
                "cpu_seconds": round(statistics.median(processor for _, processor, *_ in runs), 2),
                "peak_memory_bytes": max(memory for *_, memory, _ in runs),
            }
        )
    )


if __name__ == "__main__":
    main()
