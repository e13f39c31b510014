"""How soon `ulpscope view` shows a result of a million rows.

Prints the CPU time of the server and the wall time until its address is printed, until the first screen has
its data, and for what is read later.

    python3 benches/page.py target/bench-page --ulpscope target/release/ulpscope [--rows 1000000]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import struct
import subprocess
import time
import urllib.request
import zlib
from pathlib import Path

ENTRIES = 4
CLASSES = ["equal", "noise", "noise", "inherited"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ulpscope", default="ulpscope")
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    program = options.ulpscope.split()
    result = made_result(options.folder, program, options.rows)
    sheet = next(result.glob("*.csv"))
    print(f"{options.rows:,} rows, {sheet.stat().st_size / 1e6:.0f} MB of csv")
    begin = time.perf_counter()
    with subprocess.Popen(
        [*program, "view", str(result), "--json"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        printed = ""
        while "}" not in printed:
            printed += server.stdout.readline()
        address = json.loads(printed)["address"]

        def shown(what: str) -> None:
            wall = time.perf_counter() - begin
            print(f"{what:55} {cpu_seconds(server.pid):6.2f} s of CPU  {wall:6.2f} s", flush=True)

        shown("address printed")
        get(address, "")
        manifest = json.loads(part(address, "manifest"))
        fields = "name pass op path row rows verdict detail golden side class error expected region"
        for field in fields.split():
            part(address, f"calls/0/{field}")
        names = [column["name"] for column in manifest["columns"]]
        first = [number for number, column in enumerate(manifest["columns"]) if column["shown"]]
        for column in first:
            part(address, f"rows/0/{column}/0")
        shown("first screen, chart, tree and first rows served")
        chunks = -(-manifest["ranks"][0]["rows"] // manifest["chunk_rows"])
        for column in first:
            part(address, f"rows/0/{column}/{chunks - 1}")
        shown("and the last rows")
        counted = 0
        for chunk in range(chunks):
            counted += struct.unpack("<I", part(address, f"rows/0/{names.index('rel_l2')}/{chunk}")[4:8])[0]
        shown("and a whole column, to sort by")
        assert counted == options.rows, counted
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())
        print(f"peak memory of the server {int(peak[1]) / 1024 if peak else 0:.0f} MB")
        server.send_signal(signal.SIGINT)


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def get(address: str, name: str) -> bytes:
    with urllib.request.urlopen(address + name) as answer:
        return answer.read()


def part(address: str, name: str) -> bytes:
    body = get(address, f"parts/{name}")
    return zlib.decompress(body, -15) if body else b""


def made_result(folder: Path, program: list[str], rows: int) -> Path:
    """A result as `compare` writes it, of two small dumps, with many more rows in its sheet."""
    result = folder / f"result-{rows}"
    if result.exists():
        return result
    for side in ("target", "golden"):
        calls = {
            "Torch.add.0.forward": {"input_args": [tensor(1.0)], "input_kwargs": {}, "output": [tensor(2.0)]}
        }
        place = folder / side / "step0" / "rank"
        place.mkdir(parents=True, exist_ok=True)
        (place / "dump.json").write_text(
            json.dumps({"task": "statistics", "level": "L1", "dump_data_dir": None, "data": calls})
        )
    subprocess.run(
        [*program, "compare", folder / "target", folder / "golden", "-o", result], stdout=subprocess.DEVNULL
    )
    sheet = next(result.glob("*.csv"))
    with sheet.open(newline="") as file:
        header = next(csv.reader(file))
    with sheet.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for number in range(rows):
            writer.writerow(row_of(number, header))
    document = json.loads((result / "result.json").read_text())
    document["ranks"][0]["rows"] = rows
    (result / "result.json").write_text(json.dumps(document))
    return result


def tensor(value: float) -> dict[str, object]:
    statistics = dict.fromkeys(("Max", "Min", "Mean", "Norm"), value)
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [8, 8],
        "requires_grad": False,
        **statistics,
    }


def row_of(number: int, header: list[str]) -> list[str]:
    """A row of the native style: texts and digits as long as those of a real one."""
    call, entry = divmod(number, ENTRIES)
    layer = call // 40
    name = f"Functional.linear.{call}.forward"
    role = f"input.{entry}" if entry < ENTRIES - 1 else "output.0"
    error = 1e-7 * (1 + (number * 7919) % 1000 / 1000)
    values = {
        "call": name,
        "entry": role,
        "verdict": CLASSES[call % len(CLASSES)],
        "class": CLASSES[call % len(CLASSES)],
        "why": "",
        "how": "name",
        "target_name": f"{name}.{role}",
        "golden_name": f"{name}.{role}",
        "target_dtype": "torch.bfloat16",
        "golden_dtype": "torch.float32",
        "target_shape": "[4, 512, 4096]",
        "golden_shape": "[4, 512, 4096]",
        "module": f"Module.model.layers.{layer}.mlp.MLP.forward.0" if entry == 0 else "",
        "code": f"model.py:{100 + call % 400} forward" if entry == 0 else "",
        "expected": repr(2 * error) if role == "output.0" else "",
        "basis": "",
        "proof": "",
        "wrong_side": "",
        "target_digest": "",
        "golden_digest": "",
    }
    return [values.get(column, repr(error * (place + 1) * 1.0000001)) for place, column in enumerate(header)]


if __name__ == "__main__":
    main()
