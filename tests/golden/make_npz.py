"""Writes the .npz files of tests/golden/npz with numpy itself; running it again gives identical files.

    python tests/golden/make_npz.py
"""

import pathlib

import numpy

FOLDER = pathlib.Path(__file__).parent / "npz"


def main():
    FOLDER.mkdir(exist_ok=True)
    numbers = numpy.arange(6).reshape(2, 3)
    arrays = {
        "f4": numbers.astype("f4"),
        "big_endian": numbers.astype(">i4"),
        "fortran": numpy.asfortranarray(numbers.astype("f8")),
        "folder/bool": numbers % 2 == 0,
        "scalar": numpy.array(1.5, "f2"),
        "empty": numpy.zeros((0, 3), "u1"),
    }
    numpy.savez(FOLDER / "stored.npz", **arrays)
    numpy.savez_compressed(FOLDER / "compressed.npz", **arrays)
    numpy.savez(FOLDER / "objects.npz", numbers=arrays["f4"], objects=numpy.array([{}], dtype=object))
    numpy.savez(FOLDER / "nothing.npz")


main()
