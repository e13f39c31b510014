"""Makes tests/hostile/msprobe/: files of msprobe's that are wrong in one way. Running it again gives the same files.

The part of a name before the first dot says which reader the file is for.
"""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent / "msprobe"


def call(**tensor):
    item = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], **tensor}
    return {"input_args": [item], "input_kwargs": {}, "output": []}


def dump(**data):
    text = json.dumps({"task": "tensor", "level": "L1", "dump_data_dir": None, "data": data}, indent=1)
    return text.encode()


WHOLE = dump(**{"Torch.a.0.forward": call(), "Torch.b.0.forward": call()})


def cut_at(mark, occurrence=1):
    at = -1
    for _ in range(occurrence):
        at = WHOLE.index(mark, at + 1)
    return WHOLE[: at + len(mark)]


FILES = {
    # Nothing can be read.
    "dump.empty": b"",
    "dump.a_list": b"[]",
    "dump.no_data": b'{"task": "tensor", "level": "L1"}',
    "dump.a_stack_json": b'{"0": [["Torch.a.0.forward"], ["File a.py, line 1, in f, \\n g()"]]}',
    "dump.data_is_null": b'{"task": "tensor", "data": null}',
    "dump.data_is_a_list": b'{"task": "tensor", "data": [{"a": 1}]}',
    "dump.cut_in_header": b'{"task": "tensor", "lev',
    "dump.cut_before_data": b'{"task": "tensor", "data"',
    "dump.many_header_keys": b"{" + b", ".join(b'"k%d": 0' % i for i in range(1100)) + b', "data": {}}',
    # Calls, then an error.
    "dump.cut_after_data": cut_at(b'"data": {'),
    "dump.cut_in_first_key": cut_at(b'"Torch.a'),
    "dump.cut_in_first_call": cut_at(b'"shape": ['),
    "dump.cut_after_first_call": cut_at(b"\n  },"),
    "dump.cut_in_second_call": cut_at(b'"dtype": ', 2),
    "dump.cut_after_last_call": WHOLE[:-4],
    "dump.cut_before_end": WHOLE[:-1],
    "dump.text_after_end": WHOLE + b"x",
    "dump.a_second_data": WHOLE[:-2] + b',\n "data": {}\n}',
    "dump.cut_after_data_in_front": b'{"data": {"Torch.a.0.forward": {}}, "task": "ten',
    "dump.deep_call": b'{"task": "x", "data": {"good": {}, "deep": ' + b"[" * 1100 + b"]" * 1100 + b"}}",
    "dump.deep_call_at_the_limit": b'{"task": "x", "data": {"deep": ' + b"[" * 1022 + b"]" * 1022 + b"}}",
    # Whole, but not to be trusted.
    "dump.name_climbs": dump(a=call(data_name="../../etc/passwd")),
    "dump.name_is_absolute": dump(a=call(data_name="/etc/passwd")),
    "dump.name_is_a_drive": dump(a=call(data_name="C:\\windows\\win.ini")),
    "dump.name_is_up": dump(a=call(data_name="..")),
    "dump.name_is_empty": dump(a=call(data_name="")),
    "dump.name_is_a_number": dump(a=call(data_name=7)),
    "dump.name_has_nul": dump(a=call(data_name="a\x00.pt")),
    "stack.a_list": b"[]",
    "stack.lines_are_numbers": b'{"0": [["a"], [1, 2]]}',
    "stack.names_are_lists": b'{"0": [[["a"]], ["x"]]}',
    "stack.lines_are_null": b'{"a": ["x"], "b": null}',
    "stack.three_parts": b'{"0": [["a"], ["x"], ["y"]]}',
    "stack.cut": b'{"a": ["x"], "b": ["y',
    "construct.a_list": b"[]",
    "construct.cut": b'{"a": null, "b": "a", "c": ["a"',
    "construct.text_after_end": b'{"a": null} {}',
}

HERE.mkdir(exist_ok=True)
for name, content in FILES.items():
    (HERE / f"{name}.json").write_bytes(content)
