"""Writes the files of tests/hostile/npz: each is wrong, or malicious, in one way that its name tells.

    python tests/hostile/make_npz.py

Needs nothing but Python; running it again gives identical files.
"""

import pathlib
import struct
import zipfile

FOLDER = pathlib.Path(__file__).parent / "npz"


def npy(descr="<f4", shape="(4,)", data=struct.pack("<4f", 1, 2, 3, 4)):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def archive(entries, compression=zipfile.ZIP_STORED, attributes=0o100644):
    target = FOLDER / "being_made.zip"
    with zipfile.ZipFile(target, "w") as out:
        for name, data in entries:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            info.external_attr = attributes << 16
            info.compress_type = compression
            out.writestr(info, data)
    data = target.read_bytes()
    target.unlink()
    return data


def claims_size(data, size):
    """The same archive, whose directory gives its only entry another size."""
    at = data.index(b"PK\x01\x02")
    return data[: at + 24] + struct.pack("<I", size) + data[at + 28 :]


def main():
    FOLDER.mkdir(exist_ok=True)
    good = archive([("x.npy", npy())])
    bomb = archive([("x.npy", npy(data=bytes(1 << 16)))], zipfile.ZIP_DEFLATED)
    files = {
        "empty": b"",
        "wrong_magic": npy(),
        "cut_in_the_directory": good[:-30],
        "array_cut": archive([("x.npy", npy()[:-1])]),
        "array_without_magic": archive([("x.npy", b"not an array")]),
        "array_huge": archive([("x.npy", npy(shape="(1000000000000,)"))]),
        "array_of_nothing": archive([("x.npy", b"")]),
        "name_with_parent": archive([("../x.npy", npy())]),
        "name_absolute": archive([("/x.npy", npy())]),
        "symlink": archive([("x.npy", b"/etc/passwd")], attributes=0o120777),
        "two_arrays_of_one_name": archive([("x.npy", npy()), ("y.npy", npy())]).replace(b"y.npy", b"x.npy"),
        "bomb_beyond_what_deflate_can_do": claims_size(bomb, 0xFFFF_0000),
        "bomb_larger_than_it_says": claims_size(bomb, 1 << 10),
    }
    for name, data in files.items():
        (FOLDER / f"{name}.npz").write_bytes(data)


main()
