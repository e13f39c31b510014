"""Writes the files of tests/hostile/pt: each is wrong, or malicious, in one way that its name tells.

    python tests/hostile/make_pt.py

Needs nothing but Python; running it again gives identical files.
"""

import pathlib
import pickle
import struct
import zipfile
import zlib

FOLDER = pathlib.Path(__file__).parent / "pt"

# A legacy file up to its object: magic number, version, machine.
LEGACY_START = b"".join(pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {}))


def text(content):
    encoded = content.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def integer(number):
    """`number` as Python itself pickles it, without the frame around it."""
    return pickle.dumps(number, 2)[2:-1]


def tuple_of(*parts):
    return b"(" + b"".join(parts) + b"t"


def integers(*numbers):
    return tuple_of(*map(integer, numbers))


def name(module, function):
    return f"c{module}\n{function}\n".encode()


def call(module, function, *args):
    return name(module, function) + tuple_of(*args) + b"R"


def storage(key="0", count=4, kind="FloatStorage", module="torch", view=None):
    parts = [text("storage"), name(module, kind), text(key), text("cpu"), integer(count)]
    if view:
        parts.append(tuple_of(text("v"), integer(view[0]), integer(view[1])))
    return tuple_of(*parts) + b"Q"


def tensor(shape=(4,), stride=(1,), offset=0, where=None):
    where = where or storage()
    return call("torch._utils", "_rebuild_tensor_v2", where, integer(offset), integers(*shape), integers(*stride),
                b"\x89", call("collections", "OrderedDict"))


def whole(body, protocol=2):
    return b"\x80" + bytes([protocol]) + body + b"."


def legacy(object_pickle, keys=("0",), storages=struct.pack("<q4f", 4, 1, 2, 3, 4)):
    return LEGACY_START + object_pickle + pickle.dumps(list(keys), 2) + storages


def archive(entries, change=lambda info: None):
    """A zip of stored entries, as bytes; `change` may alter how an entry is described."""
    target = FOLDER / "being_made.zip"
    with zipfile.ZipFile(target, "w") as out:
        for entry, data in entries:
            info = zipfile.ZipInfo(entry, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            change(info)
            out.writestr(info, data)
    data = target.read_bytes()
    target.unlink()
    return data


def torch_zip(object_pickle, *more, storages=((0, struct.pack("<4f", 1, 2, 3, 4)),), change=lambda info: None):
    entries = [("archive/data.pkl", object_pickle)]
    entries += [(f"archive/data/{key}", data) for key, data in storages]
    return archive(entries + list(more), change)


def directory_entry(data, entry):
    """Where the archive's directory describes an entry."""
    at = data.rindex(entry.encode()) - 46
    assert data[at : at + 4] == b"PK\x01\x02", entry
    return at


def patched(data, at, form, number):
    return data[:at] + struct.pack(form, number) + data[at + struct.calcsize(form) :]


def write(file, data):
    (FOLDER / f"{file}.pt").write_bytes(data)


def containers():
    good = torch_zip(whole(tensor()))
    write("empty", b"")
    write("wrong_magic", b"\x89PNG\r\n\x1a\n and so on")
    write("zip_cut_in_the_middle", good[: len(good) // 2])
    write("zip_cut_in_the_directory", good[:-40])
    write("no_data_pkl", archive([("archive/version", b"3\n")]))
    write("entries_without_a_folder", archive([("data.pkl", whole(b"N"))]))
    write("name_with_parent", torch_zip(whole(b"N"), ("archive/../../evil", b"")))
    write("name_absolute", torch_zip(whole(b"N"), ("/etc/evil", b"")))
    # Python turns both into something harmless when it writes them.
    write("name_with_backslash", torch_zip(whole(b"N"), ("archive/x@evil", b"")).replace(b"x@evil", b"x\\evil"))
    write("name_with_nul", torch_zip(whole(b"N"), ("archive/x@evil", b"")).replace(b"x@evil", b"x\0evil"))

    def as_link(info):
        if info.filename.endswith("/data/0"):
            info.external_attr = 0o120777 << 16

    write("symlink", torch_zip(whole(tensor()), storages=[(0, b"/etc/passwd")], change=as_link))
    write("two_entries_of_one_name",
          torch_zip(whole(tensor()), ("archive/data/1", b"evil")).replace(b"archive/data/1", b"archive/data/0"))
    at = directory_entry(good, "archive/data/0")
    first = directory_entry(good, "archive/data.pkl")
    write("entries_overlap", patched(good, at + 42, "<I", struct.unpack_from("<I", good, first + 42)[0]))
    write("entry_beyond_the_file", patched(patched(good, at + 20, "<I", 1 << 30), at + 24, "<I", 1 << 30))
    write("entry_size_lies", patched(good, at + 24, "<I", 1 << 20))
    write("entry_encrypted", patched(good, at + 8, "<H", 1))
    write("entry_of_unknown_compression", patched(good, at + 10, "<H", 97))
    write("byteorder_unknown", torch_zip(whole(tensor()), ("archive/byteorder", b"middle")))
    write("torchscript", torch_zip(whole(b"N"), ("archive/code/__torch__.py", b"")))

    def deflated(info):
        info.compress_type = zipfile.ZIP_DEFLATED

    packed = torch_zip(whole(tensor()), storages=[(0, bytes(1 << 16))], change=deflated)
    at = directory_entry(packed, "archive/data/0")
    compressed = struct.unpack_from("<I", packed, at + 20)[0]
    write("bomb_beyond_what_deflate_can_do", patched(packed, at + 24, "<I", 0xFFFF_0000))
    write("bomb_larger_than_it_says", patched(packed, at + 24, "<I", 1 << 10))
    write("deflated_smaller_than_it_says", patched(packed, at + 24, "<I", (1 << 16) + 1))
    start = packed.index(zlib.compress(bytes(1 << 16), 6)[2:-4])
    write("deflated_garbage", packed[:start] + b"\xff" * compressed + packed[start + compressed :])
    write("deflated_wrong_checksum", patched(packed, at + 16, "<I", 0))
    # 32 KB that unfold into 32 million lists.
    write("pickle_deflated_lists", archive([("archive/data.pkl", whole(b"](" + b"]" * (1 << 25) + b"e"))], deflated))


def programs():
    """Pickles that would run something, were they ever run."""
    echo = text("echo pwned")
    write("runs_os_system", torch_zip(whole(call("os", "system", echo))))
    write("runs_posix_system", torch_zip(whole(call("posix", "system", echo))))
    write("runs_eval", torch_zip(whole(call("builtins", "eval", text("1 + 1")))))
    write("runs_exec_of_python_2", legacy(whole(call("__builtin__", "execfile", text("evil.py")))))
    write("runs_subprocess_beside_a_tensor", legacy(whole(tuple_of(tensor(), call("subprocess", "Popen", echo)))))
    write("runs_by_inst", torch_zip(b"(S'echo pwned'\nios\nsystem\n."))
    write("runs_by_obj", torch_zip(b"(cos\nsystem\nS'echo pwned'\no."))
    write("runs_by_newobj", torch_zip(whole(name("subprocess", "Popen") + tuple_of(echo) + b"\x81")))
    write("runs_and_drops_the_result", torch_zip(whole(call("os", "system", echo) + b"0" + tensor())))
    through = text("torch.serialization") + text("os.system") + b"\x93" + tuple_of(echo) + b"R"
    write("runs_through_an_attribute", torch_zip(whole(through, 4)))
    write("runs_getattr", torch_zip(whole(call("builtins", "getattr", name("torch", "Size"), text("__class__")))))
    write("runs_torch_load", torch_zip(whole(call("torch.storage", "_load_from_bytes", text("")))))
    write("runs_a_partial", torch_zip(whole(call("functools", "partial", name("builtins", "print")))))
    write("runs_in_the_storage_keys", LEGACY_START + whole(tensor()) + whole(call("os", "system", echo)))


def pickles():
    """Pickles that are broken."""
    cases = {
        "ends_at_once": b"",
        "ends_without_stop": b"\x80\x02N",
        "ends_in_an_integer": b"\x80\x02J\x01",
        "ends_in_a_text": b"\x80\x02X\x10\0\0\0abc.",
        "ends_in_a_line": b"cos",
        "text_of_4_gib": b"\x80\x02X\xff\xff\xff\xff.",
        "bytes_of_16_eib": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff.",
        "text_not_utf8": b"\x80\x02X\x02\0\0\0a\xff.",
        "unknown_opcode": b"\x80\x02\xfe.",
        "unknown_protocol": b"\x80\x06N.",
        "stack_empty": b"\x80\x02.",
        "stack_below_a_mark": b"\x80\x02N(\x85.",
        "no_mark": b"\x80\x02Nt.",
        "memo_unknown": b"\x80\x02h\x05.",
        "dictionary_without_a_value": b"\x80\x02}(Nu.",
        "append_to_none": b"\x80\x02NNa.",
        "set_items_of_a_list": b"\x80\x02](NNu.",
        "build_of_a_list": b"\x80\x02]Nb.",
        "obj_without_a_class": b"(o.",
        "name_not_text": b"\x80\x04K\x01K\x02\x93.",
        "name_of_2000_letters": whole(name("a" * 2000, "b")),
        "integer_not_decimal": b"I1x\n.",
        "string_not_quoted": b"Sabc\n.",
        "string_with_a_cut_escape": b"S'\\x4'\n.",
        "buffers_elsewhere": b"\x80\x05\x97.",
        "contains_itself": b"\x80\x02]q\0h\0a.",
        # Each list holds the one before it twice: 2**60 values from 300 bytes.
        "doubles_sixty_times": b"\x80\x02]" + b"".join(b"q%c]h%ch%c\x86" % (i, i, i) for i in range(60)) + b".",
        # One text of 4 KB, two thousand times.
        "repeats_a_text": b"\x80\x02X\0\x10\0\0" + b"x" * 4096 + b"q\0(" + b"h\0" * 2000 + b"t.",
        "persistent_id_of_text": b"\x80\x02" + text("storage") + b"Q.",
        "persistent_id_of_another_kind": b"\x80\x02" + tuple_of(*[text("network")] * 5) + b"Q.",
        "array_without_a_state": whole(call("numpy.core.multiarray", "_reconstruct", name("numpy", "ndarray"))),
        "array_too_short": whole(array(integers(1000), b"C\x04abcd")),
        "array_of_a_negative_size": whole(array(integers(-1), b"C\x04abcd")),
        "array_of_10_to_the_30": whole(array(integers(10**15, 10**15), b"C\x04abcd")),
        "bytes_not_latin_1": whole(call("_codecs", "encode", text("漢"), text("latin1"))),
    }
    for file, data in cases.items():
        write(f"pickle_{file}", torch_zip(data))


def array(shape, data):
    dtype = call("numpy", "dtype", text("f4")) + tuple_of(integer(3), text("<")) + b"b"
    state = tuple_of(integer(1), shape, dtype, b"\x89", data)
    return call("numpy.core.multiarray", "_reconstruct", name("numpy", "ndarray")) + state + b"b"


def tensors():
    """Tensors that do not fit their storages."""
    v2 = "_rebuild_tensor_v2"
    cases = {
        "larger_than_its_storage": tensor((5,)),
        "beyond_its_storage": tensor((2,), (1,), 3),
        "offset_negative": tensor(offset=-1),
        "offset_beyond_everything": tensor(offset=2**64),
        "dimension_negative": tensor((-1,)),
        "dimension_beyond_everything": tensor((2**80,), (0,)),
        "shape_overflows": tensor((2**40, 2**40), (0, 0)),
        "stride_beyond_everything": tensor((2,), (2**62,)),
        "stride_overflows": tensor((2,), (2**100,)),
        "stride_leads_in_front": tensor((2,), (-1,)),
        "rank_mismatch": tensor((2, 2), (1,)),
        "rank_65": tensor((1,) * 65, (1,) * 65),
        # A 16-byte storage that claims 10**15 elements.
        "expanded_beyond_belief": tensor((10**15,), (0,)),
        "shape_not_integers": call("torch._utils", v2, storage(), integer(0), tuple_of(text("4")), integers(1)),
        "shape_not_a_tuple": call("torch._utils", v2, storage(), integer(0), integer(4), integers(1)),
        "without_arguments": call("torch._utils", v2),
        "without_a_storage": call("torch._utils", v2, b"N", integer(0), integers(4), integers(1)),
        "without_a_dtype": call("torch._utils", "_rebuild_tensor_v3", storage(), integer(0), integers(4), integers(1)),
        "parameter_of_nothing": call("torch._utils", "_rebuild_parameter"),
        "storage_missing": tensor(where=storage("7")),
        "storage_elsewhere": tensor(where=storage("../data.pkl")),
        "storage_too_short": tensor(where=storage(count=5)),
        "storage_count_negative": tensor(where=storage(count=-1)),
        "storage_count_overflows": tensor(where=storage(count=2**63 - 1)),
        "storage_part_outside": tensor(where=storage(view=(2, 3))),
        "storage_part_negative": tensor(where=storage(view=(-1, 3))),
        "negative_bit_of_integers": call(
            "torch._utils", v2, storage(kind="IntStorage"), integer(0), integers(4), integers(1), b"\x89",
            call("collections", "OrderedDict"), b"}" + text("neg") + b"\x88s"),
    }
    for file, body in cases.items():
        write(f"tensor_{file}", torch_zip(whole(body)))


def older_form():
    good = legacy(whole(tensor()))
    write("legacy_wrong_version", LEGACY_START.replace(struct.pack("<H", 1001), struct.pack("<H", 1002)) + good)
    write("legacy_cut_after_the_magic_number", LEGACY_START[:15])
    write("legacy_cut_in_the_object", good[: len(LEGACY_START) + 20])
    write("legacy_cut_in_a_count", good[:-20])
    write("legacy_cut_in_a_storage", good[:-1])
    write("legacy_wrong_count", legacy(whole(tensor()), storages=struct.pack("<q4f", 3, 1, 2, 3, 4)))
    write("legacy_huge_count",
          legacy(whole(tensor(where=storage(count=2**63 - 1))), storages=struct.pack("<q", 2**63 - 1)))
    write("legacy_key_of_nothing", legacy(whole(tensor()), ["0", "1"]))
    write("legacy_key_not_text", legacy(whole(tensor()), [0]))
    write("legacy_keys_not_a_list", LEGACY_START + whole(tensor()) + whole(b"N"))
    write("legacy_storage_not_listed", legacy(whole(tensor()), [], b""))
    write("legacy_unknown_storage_class", legacy(whole(tensor(where=storage(kind="EvilStorage")))))


FOLDER.mkdir(exist_ok=True)
containers()
programs()
pickles()
tensors()
older_form()
