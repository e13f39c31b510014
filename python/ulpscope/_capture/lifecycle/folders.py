"""Ownership of dump folders: two captures that write to the same ones would destroy each other's work.

    {dump_path}/.rank0.lock    locked while a capture writes to step*/rank0

The kernel releases the lock when the process ends, in whatever way. Each rank has a separate lock: ranks
write in parallel. Below ``dump_path`` no symbolic link is followed: it may lead out of the dump.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import socket
from pathlib import Path

from ulpscope._capture.settings import SettingsError

# Errors that mean another process has the lock. Any other means that the file system has no locks.
_TAKEN = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)

# The folder for calls after the last training step.
AFTER_LAST_STEP = "after_last_step"

_STEP_FOLDER = re.compile(rf"step[0-9]+|{AFTER_LAST_STEP}")

# The contents of a rank's step folder.
_FILES = ("dump.json", "debug.json", "stack.json", "construct.json", "ledger.json", "journal.jsonl")

_held: set[FolderLock] = set()


class FolderLock:
    """The right to write to the folders of one rank below a ``dump_path``."""

    def __init__(self, dump_path: Path, rank_folder: str) -> None:
        self.rank_folder = rank_folder
        self.dump_path = dump_path
        self._path = dump_path / f".{rank_folder}.lock"
        _refuse_links(dump_path, rank_folder)
        self._file = self._open()
        _held.add(self)

    def _open(self) -> int:
        while True:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise _is_link(self.dump_path, self._path) from None
                raise SettingsError(
                    "dump_path",
                    f"is {str(self.dump_path)!r}, a folder that cannot be written to: {error.strerror}",
                ) from None
            try:
                self._lock(file)
                # The previous owner may have just removed the file: then no one else would see this lock.
                if os.path.samestat(os.fstat(file), self._path.lstat()):
                    self._sign(file)
                    return file
            except FileNotFoundError:
                # It was removed between the two checks.
                pass
            except BaseException:
                os.close(file)
                raise
            os.close(file)

    def _lock(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _TAKEN:
                raise SettingsError(
                    "dump_path",
                    f"is {str(self.dump_path)!r}, where {_owner(file)} writes to {self.rank_folder} now; "
                    "close that one first, or give each its own folder (processes of one job: set RANK)",
                ) from None

    def _sign(self, file: int) -> None:
        # The lock works without it; a full disk has no room for the name.
        with contextlib.suppress(OSError):
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()} {socket.gethostname()}".encode(), 0)

    def release(self) -> None:
        """Releases the folders."""
        if self in _held:
            _held.discard(self)
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._file)

    def is_same_as(self, dump_path: Path, rank_folder: str) -> bool:
        """Whether this is the lock of these folders, by any path."""
        return self.rank_folder == rank_folder and os.path.realpath(self.dump_path) == os.path.realpath(
            dump_path
        )


def _owner(file: int) -> str:
    """The owner of the lock, as written in the file."""
    process, _, host = os.pread(file, 300, 0).decode(errors="replace").partition(" ")
    if not process.isdecimal() or not host:
        return "another capture"
    if host != socket.gethostname():
        return f"a capture of process {process} on {host}"
    return (
        "another capture of this process"
        if int(process) == os.getpid()
        else f"a capture of process {process}"
    )


def _leave_to_parent() -> None:
    """A forked child inherits the parent's locks, and could hold them longer than the parent lives."""
    for lock in _held:
        os.close(lock._file)
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def make(dump_path: Path) -> list[Path]:
    """Makes the folder of a dump and its parents; returns those that were missing, innermost first."""
    try:
        missing = [folder for folder in (dump_path, *dump_path.parents) if not folder.exists()]
        dump_path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            "dump_path", f"is {str(dump_path)!r}, a folder that cannot be made: {error.strerror}"
        ) from None
    return missing


def remove_empty(made: list[Path]) -> None:
    """Removes folders that were made but not used, innermost first."""
    for folder in made:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _step_folders(dump_path: Path) -> list[Path]:
    """The entries named like step folders, in order; empty if the folder cannot be listed."""
    try:
        names = [name for name in os.listdir(dump_path) if _STEP_FOLDER.fullmatch(name)]  # noqa: PTH208
    except OSError:
        return []
    return [dump_path / name for name in sorted(names, key=_step_order)]


def _step_order(name: str) -> tuple[bool, int]:
    return name == AFTER_LAST_STEP, int(name.removeprefix("step")) if name != AFTER_LAST_STEP else 0


def _refuse_links(dump_path: Path, rank_folder: str) -> None:
    """Raises if a folder that this rank may write to is a link."""
    for step in _step_folders(dump_path):
        for folder in (step, step / rank_folder):
            if folder.is_symlink():
                raise _is_link(dump_path, folder)


def _is_link(dump_path: Path, path: Path) -> SettingsError:
    return SettingsError(
        "dump_path",
        f"is {str(dump_path)!r}, where {str(path.relative_to(dump_path))!r} is a symbolic link, "
        "which may lead out of the dump: remove it, or choose another folder",
    )


class EarlierSteps:
    """Steps that an earlier capture left in the folders of a rank: readers would take them for this run's.

    A step that is recorded again replaces the old one. The others stay: they may be all that is left of a
    run, or the first part of one that continues here.
    """

    def __init__(self, dump_path: Path, rank_folder: str) -> None:
        self._rank_folder = rank_folder
        self._found = {step: _identity(step / rank_folder) for step in _step_folders(dump_path)}

    def left(self) -> list[str]:
        """The names of those that are unchanged, in order."""
        return [
            step.name
            for step, identity in self._found.items()
            if identity is not None and _identity(step / self._rank_folder) == identity
        ]


def _identity(folder: Path) -> tuple[int, int] | None:
    """Identifies the dump in a folder; None if there is none."""
    for name in _FILES:
        with contextlib.suppress(OSError):
            found = (folder / name).lstat()
            return found.st_ino, found.st_mtime_ns
    return None


def discard(folder: Path) -> None:
    """Removes an unwanted step of a rank, and no other files in the folder."""
    if folder.is_symlink() or folder.parent.is_symlink():
        return
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "dump_tensor_data", ignore_errors=True)
    for empty in (folder, folder.parent):
        with contextlib.suppress(OSError):
            empty.rmdir()
