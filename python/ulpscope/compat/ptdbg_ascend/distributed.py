"""``compare_distributed`` of ptdbg_ascend: the ranks of two dumps, pair by pair."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ulpscope.compat.ptdbg_ascend.compare import (
    Dumps,
    Options,
    check_stacks,
    compare_dumps,
    ending_the_script,
    existing_folder,
    refused,
)
from ulpscope.compat.ptdbg_ascend.exceptions import CompareException

_RANK = re.compile(r"rank([0-9]+)")


def compare_distributed(
    npu_dump_dir: str | os.PathLike[str],
    bench_dump_dir: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    **kwargs: Any,
) -> None:
    """Compares the ranks of two dumps; writes compare_result_rank{a}-rank{b}_*.csv for each pair.

    The two folders are those that hold the rank folders, and nothing else may be in them. ``kwargs`` are the
    optional arguments of ``compare``. Everything is checked before the first comparison.
    """
    if kwargs.pop("suffix", None):
        text = "Argument 'suffix' is not supported for compare_distributed."
        raise refused(CompareException.INVALID_PARAM_ERROR, text)
    options = Options(**kwargs, print_rows=True)
    npu, bench = _ranks(npu_dump_dir, "npu_dump_dir"), _ranks(bench_dump_dir, "bench_dump_dir")
    if len(npu) != len(bench):
        raise refused(
            CompareException.INVALID_PATH_ERROR,
            "The number of ranks in the two runs are different. Unable to match the ranks. Please use "
            "another folder to compare or use compare() api and manually match the ranks.",
        )
    pairs = []
    for one, other in zip(npu, bench, strict=True):
        (npu_pkl, npu_data), (bench_pkl, bench_data) = _files_of(one), _files_of(other)
        pairs.append((f"_{one.name}-{other.name}", Dumps(npu_pkl, bench_pkl, npu_data, bench_data)))
    with ending_the_script():
        options.check()
        output = existing_folder(output_path, "output_path")
        for _, dumps in pairs:
            check_stacks(dumps, options)
        for suffix, dumps in pairs:
            compare_dumps(dumps, output, options, suffix)


def _ranks(folder: str | os.PathLike[str], key: str) -> list[Path]:
    """The rank folders in order of their numbers."""
    numbered = []
    for path in existing_folder(folder, key).iterdir():
        rank = _RANK.fullmatch(path.name)
        # A link may lead to another dump.
        if rank is None or path.is_symlink() or not path.is_dir():
            raise refused(
                CompareException.INVALID_PATH_ERROR,
                f"dump_dir contains '{path.name}'. Expected 'rank'. This name is not in the format of dump "
                f"output. Please check and delete irrelevant files in {folder} and try again.",
            )
        numbered.append((int(rank[1]), path))
    if not numbered:
        raise refused(CompareException.NO_DUMP_FILE_ERROR, f"No directory is found in dump dir {folder}. ")
    return [path for _, path in sorted(numbered)]


def _files_of(rank: Path) -> tuple[Path, Path]:
    """The .pkl of a rank and the folder of its .npy files."""
    pickles = sorted(path for path in rank.glob("*.pkl") if path.is_file() and not path.is_symlink())
    folders = sorted(path for path in rank.iterdir() if path.is_dir() and not path.is_symlink())
    if not pickles:
        raise refused(CompareException.NO_DUMP_FILE_ERROR, f"No file is found in dump dir {rank}. ")
    if not folders:
        raise refused(CompareException.NO_DUMP_FILE_ERROR, f"No directory is found in dump dir {rank}. ")
    if len(pickles) > 1 or len(folders) > 1 or pickles[0].stem != folders[0].name:
        raise refused(
            CompareException.INVALID_FILE_ERROR,
            f"The names of pkl and directory do not match! Please check the names and remove irrelevant "
            f"files in {rank}. ",
        )
    if pickles[0].stat().st_size == 0:
        raise refused(CompareException.INVALID_DUMP_FILE, f"dump file {pickles[0]} have empty line!")
    return pickles[0], folders[0]
