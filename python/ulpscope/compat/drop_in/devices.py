"""``torch_npu``, ``torch.npu`` and ``.npu()`` on a machine without an NPU: the device that is there.

A test compares the names and parameters of the functions with the sources of torch_npu 2.11.0. None was tried
on an NPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ulpscope._capture.launch.after_import import Waiting, after_import

# torch imports torch_npu on its own unless this is 0. A broken torch_npu then breaks the import of torch.
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


class NpuInPlace(MetaPathFinder):
    """Stands in for torch_npu from the import of torch on, unless the real one works."""

    def __init__(self, force: bool, on_stand_in: Callable[[], None]) -> None:
        self._on_stand_in = on_stand_in
        self._is_installed = importlib.util.find_spec("torch_npu") is not None
        self._force = force
        self._waiting: Waiting | None = None
        self._autoload = os.environ.get(AUTOLOAD)
        self._module: ModuleType | None = None
        self._added: list[tuple[Any, str]] = []
        self._has_torch = False

    def install(self) -> None:
        """Waits for torch. Until then torch_npu is not imported on its own."""
        if self._is_installed:
            os.environ[AUTOLOAD] = "0"
        sys.meta_path.insert(0, self)
        self._waiting = after_import("torch", self._after_torch)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The stand-in, for a script that imports torch_npu before torch."""
        if fullname != "torch_npu" or self._has_torch:
            return None
        importlib.import_module("torch")
        return None if self._module is None else ModuleSpec(fullname, _StandInLoader(self._module))

    def remove(self) -> None:
        """Removes what was added."""
        sys.meta_path.remove(self)
        if self._waiting is not None:
            self._waiting.cancel()
        self._restore_autoload()
        if self._module is not None and sys.modules.get("torch_npu") is self._module:
            del sys.modules["torch_npu"]
        for owner, name in self._added:
            delattr(owner, name)
        self._added.clear()

    def _restore_autoload(self) -> None:
        if self._autoload is None:
            os.environ.pop(AUTOLOAD, None)
        else:
            os.environ[AUTOLOAD] = self._autoload

    def _after_torch(self) -> None:
        import torch

        self._has_torch = True
        self._restore_autoload()
        why = "torch_npu is not installed"
        if self._is_installed and not self._force:
            try:
                importlib.import_module("torch_npu")
                return
            except Exception as error:
                # Without the libraries of its device, such as libhccl.so.
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                why = f"torch_npu is installed but cannot be loaded ({reason}), and counts as absent"
                _forget("torch_npu")
        elif self._is_installed:
            why = "--force: the installed torch_npu is not used"
        device = "cuda" if torch.cuda.is_available() else "cpu"
        print(f"ulpscope: {why}: torch.npu and .npu() use {device}", file=sys.stderr)
        self._stand_in(torch, device)

    def _stand_in(self, torch: Any, device: str) -> None:
        npu = Npu(torch, device)
        self._module = ModuleType("torch_npu", "Stands in for torch_npu.")
        self._module.__path__ = []
        # Libraries ask for the spec of what is imported.
        self._module.__spec__ = ModuleSpec("torch_npu", _StandInLoader(self._module), is_package=True)
        self._module.npu = npu  # type: ignore[attr-defined]
        sys.modules["torch_npu"] = self._module
        self._on_stand_in()
        for owner, name, value in (
            (torch, "npu", npu),
            (torch.Tensor, "npu", tensor_to_device),
            (torch.nn.Module, "npu", module_to_device),
            (torch.Tensor, "is_npu", False),
        ):
            if not hasattr(owner, name):
                setattr(owner, name, value)
                self._added.append((owner, name))


class _StandInLoader(Loader):
    """Gives the stand-in, which is complete."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        pass


def tensor_to_device(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """``Tensor.npu``: the tensor on the device that is there."""
    return self.to(device=_in_place_of(device), non_blocking=non_blocking, **kwargs)


def module_to_device(self: Any, device: Any = None) -> Any:
    """``Module.npu``: the module on the device that is there."""
    return self.to(device=_in_place_of(device))


def _in_place_of(device: Any) -> Any:
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda") if device is None else torch.device("cuda", _number(device))


class Npu(ModuleType):
    """``torch.npu``: the functions of ``torch.cuda``, or of the CPU, under the names of torch_npu."""

    def __init__(self, torch: Any, device: str) -> None:
        super().__init__("torch.npu", "Stands in for torch_npu.npu.")
        self._device = device
        self._cuda = torch.cuda if device == "cuda" else None
        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        """Any other function of ``torch.cuda``; without CUDA an error that says so."""
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__dict__.get("_cuda") is not None:
            return getattr(self._cuda, name)
        raise AttributeError(
            f"torch.npu.{name} has no counterpart on this machine: there is neither an NPU nor CUDA"
        )

    def is_available(self) -> bool:
        """Whether the script may use ``.npu()``: there is a device in its place."""
        return True

    def device_count(self) -> int:
        """The devices in place of NPUs."""
        return self._cuda.device_count() if self._cuda else 1

    def current_device(self) -> int:
        """The number of the current device."""
        return self._cuda.current_device() if self._cuda else 0

    def set_device(self, device: Any) -> None:
        """Selects a device by its number."""
        if self._cuda:
            self._cuda.set_device(_number(device))

    def synchronize(self, device: Any = None) -> None:
        """Waits for a device."""
        if self._cuda:
            self._cuda.synchronize(None if device is None else _number(device))

    def empty_cache(self) -> None:
        """Releases unused memory of the device."""
        if self._cuda:
            self._cuda.empty_cache()

    def manual_seed(self, seed: int) -> None:
        """Seeds the current device."""
        (self._cuda or self._torch).manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seeds all devices."""
        if self._cuda:
            self._cuda.manual_seed_all(seed)
        else:
            self._torch.manual_seed(seed)


def _number(device: Any) -> int:
    """The number in ``"npu:0"``, ``0`` or ``torch.device("cuda:0")``."""
    if isinstance(device, int):
        return device
    text = str(device).rpartition(":")[2]
    return int(text) if text.isdecimal() else 0


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
