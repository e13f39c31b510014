"""Imports of older tools, resolved to our faces of them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

FACES = {
    "msprobe": "ulpscope.compat.msprobe",
    # The guide of ptdbg_ascend once imports it by this name.
    "ptdbg": "ulpscope.compat.ptdbg_ascend",
    "ptdbg_ascend": "ulpscope.compat.ptdbg_ascend",
    "torch_npu.hooks": "ulpscope.compat.torch_npu_hooks",
}
"""The packages of older tools, and our faces of them."""


class FaceFinder(MetaPathFinder):
    """Finds a face where a script imports the tool."""

    def __init__(self, force: bool) -> None:
        self._faces = {tool: face for tool, face in FACES.items() if force or not _is_installed(tool)}
        self._before = set(sys.modules)

    def install(self) -> None:
        """From now on the faces are found first."""
        for tool in sorted(FACES.keys() - self._faces.keys()):
            print(
                f"ulpscope: {tool} is installed: imports of it use it; --force uses Ulpscope's",
                file=sys.stderr,
            )
        sys.meta_path.insert(0, self)

    def use(self, tool: str) -> None:
        """Finds the face of a tool that is installed but cannot be loaded."""
        self._faces[tool] = FACES[tool]

    def remove(self) -> None:
        """Later imports find what is installed."""
        sys.meta_path.remove(self)
        for name in set(sys.modules) - self._before:
            if self._face_of(name) is not None:
                del sys.modules[name]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The face of a tool, or a part of it."""
        face = self._face_of(fullname)
        if face is None:
            return None
        try:
            found = importlib.util.find_spec(face)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise ModuleNotFoundError(
                f"Ulpscope has no {face}, which would stand for {fullname}; "
                f"install the tool itself, or remove this import",
                name=fullname,
            )
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _FaceLoader(face), is_package=is_package)

    def _face_of(self, name: str) -> str | None:
        for tool, face in self._faces.items():
            if name == tool or name.startswith(f"{tool}."):
                return face + name.removeprefix(tool)
        return None


class _FaceLoader(InspectLoader):
    """Imports the face under its own name, and gives the script that module."""

    def __init__(self, face: str) -> None:
        self._face = face

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._face)
        self._spec = module.__spec__
        return module

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of a face that is run as a program: ``-m ptdbg_ascend.parse``."""
        loader = self._loader()
        return loader.get_code(self._face) if loader else None

    def get_source(self, fullname: str) -> str | None:
        loader = self._loader()
        return loader.get_source(self._face) if loader else None

    def _loader(self) -> InspectLoader | None:
        found = importlib.util.find_spec(self._face)
        loader = found.loader if found else None
        return loader if isinstance(loader, InspectLoader) else None

    def exec_module(self, module: ModuleType) -> None:
        # The import machinery has given it the spec of the tool's module: it is the face's.
        module.__spec__ = self._spec


def _is_installed(tool: str) -> bool:
    package, _, part = tool.partition(".")
    found = importlib.util.find_spec(package)
    if found is None or not part:
        return found is not None
    # Without importing the package, which may import torch, or fail.
    places = [Path(folder) / part for folder in found.submodule_search_locations or ()]
    return any(place.is_dir() or place.with_suffix(".py").is_file() for place in places)
