"""Makes tests/hostile/pkl_lines/: dumps of lines of which one is wrong. Running it again gives the same files."""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent / "pkl_lines"
GOOD = b'["0_Torch_relu_forward_output", [1.0, 2.0], "torch.float32", [2]]\n'


def hooks(values, shape, dtype='"torch.float32"'):
    return GOOD + f'["1_Torch_bad_forward_output", {values}, {dtype}, {shape}]\n'.encode() + GOOD


FILES = {
    # The bad line stands between two good ones unless it is the last.
    "torn_last_line": GOOD + GOOD[:40],
    "torn_in_a_number": GOOD + GOOD[:34],
    "torn_in_the_middle": GOOD + GOOD[:40] + b"\n" + GOOD,
    "two_lists_in_a_line": GOOD + GOOD[:-1] + b" " + GOOD + GOOD,
    "an_object": GOOD + b'{"name": 1}\n' + GOOD,
    "bare_text": GOOD + b"Traceback (most recent call last):\n" + GOOD,
    "nul_bytes": GOOD + b"\x00" * 64 + b"\n" + GOOD,
    "not_utf8": GOOD + b'["1_Torch_\xff_forward_output", [1.0], "torch.float32", [1]]\n' + GOOD,
    "too_few_values": hooks("[1.0]", "[2]"),
    "too_many_values": hooks("[1.0, 2.0, 3.0, 4.0, 5.0]", "[2, 2]"),
    "shape_overflows": hooks("[1.0]", "[4611686018427387904, 4611686018427387904]"),
    "shape_of_absurd_size": hooks("[1.0]", "[1000000000000]"),
    "shape_with_a_zero": hooks("[1.0]", "[0, 18446744073709551615]"),
    "negative_shape": hooks("[1.0]", "[-1]"),
    "shape_of_floats": hooks("[1.0]", "[1.0]"),
    "unknown_dtype": hooks("[1.0]", "[1]", '"torch.float31"'),
    "dtype_is_null": hooks("[1.0]", "[1]", "null"),
    "text_among_values": hooks('[1.0, "2.0"]', "[2]"),
    "lists_among_values": hooks("[[1.0], [2.0]]", "[2]"),
    "huge_integer": hooks("[" + "9" * 400 + "]", "[1]"),
    "many_elements": GOOD + json.dumps(["name"] * 5000).encode() + b"\n" + GOOD,
    "deep_values": hooks("[" * 1100 + "]" * 1100, "[1]"),
}

HERE.mkdir(exist_ok=True)
for name, content in FILES.items():
    (HERE / f"{name}.pkl").write_bytes(content)
