"""``ulpscope.check``: calls judged without a second run. Called with a dump, it replays the dump."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ulpscope._capture.settings.perturb_settings import FuzzStage, HandlerType, PertMode
    from ulpscope._perturbation.perturbation import Perturbation
    from ulpscope._perturbation.significance import SignificantBits
    from ulpscope._replay.modules import ModuleName
    from ulpscope._replay.results import CheckResult

Numbers = int | str | Iterable[int | str]


class Check:
    """Judges calls without a second run: those of a dump, or those of a running program."""

    def __call__(
        self,
        dump: str | os.PathLike[str],
        *,
        output: str | os.PathLike[str] | None = None,
        step: Numbers | None = None,
        rank: Numbers | None = None,
        white_list: Iterable[str] = (),
        black_list: Iterable[str] = (),
        modules: Iterable[ModuleName] | ModuleName = (),
        collectives: bool = False,
        device: str | None = None,
        standard: Literal["native", "msprobe"] = "native",
        seed: int = 1234,
        jobs: int = 1,
        resume: bool = False,
        repro: bool = True,
        engine: Literal["threads", "ray"] = "threads",
        address: str | None = None,
        located: str | os.PathLike[str] | None = None,
    ) -> CheckResult:
        """Makes every API call of a dump again, alone, and judges it by the same call in float64.

        Judged are the recorded results and gradients, and with ``device`` ("cuda", "npu", "cpu") what that
        device computes from the recorded inputs. A dump without elements is replayed with inputs drawn from
        its statistics (``seed``); then the results of ``device``, by default the CPU, are judged.
        ``standard``: "native" asks whether an error is larger than rounding explains, "msprobe" applies that
        tool's standard for each API.
        ``white_list`` and ``black_list`` select by names such as "linear" or "Functional.linear".
        ``modules`` are modules whose calls are made again, too: ``"package:Class"``, a function that returns
        one, or a model, with parameters from the dump. With ``collectives``, those of a dump of several ranks
        are made again by a gloo process for each rank. A single name or module needs no list.

        ``output`` is the folder for ``accuracy_checking_result_{timestamp}.csv`` and
        ``accuracy_checking_details_{timestamp}.csv``; with ``repro``, each failing call gets a script there.
        ``jobs`` is the number of processes. ``resume`` continues an interrupted check with the same folder.
        ``engine``: "threads" for this process and its ``jobs``, or "ray": ranks are tasks of the Ray cluster
        at ``address``; ``located``: "auto" or a map of ``ulpscope locate``, if nodes have ranks of their own.
        Needs torch.
        """
        from ulpscope._replay import jobs as checking
        from ulpscope._replay.replay import ReplaySettings

        if standard not in ("native", "msprobe"):
            raise ValueError(f'standard is {standard!r}; expected "native" or "msprobe"')
        if jobs < 1:
            raise ValueError(f"jobs is {jobs}; expected a number from 1 up")
        request = checking.Request(
            Path(dump),
            step,
            rank,
            _several(white_list),
            _several(black_list),
            ReplaySettings(device, standard, seed),
            None if output is None else Path(output),
            repro,
            _several(modules),
            collectives,
        )
        if engine == "ray":
            from ulpscope._scale.check_ranks import RayOptions, run

            return run(request, RayOptions(address, located), resume, lambda done, of, call: None)
        if engine != "threads" or address is not None or located is not None:
            raise ValueError('engine is "threads" or "ray"; address and located are for "ray"')
        return checking.run(request, jobs, resume, lambda done, of, call: None)

    def perturb(
        self,
        dump_path: str | os.PathLike[str],
        model: Any = None,
        pert_mode: PertMode = "amplification",
        handler_type: HandlerType = "check",
        fuzz_stage: FuzzStage = "forward",
        **settings: Any,
    ) -> Perturbation:
        """Runs every selected call a second time on inputs that differ very little, and judges the results.

        >>> with ulpscope.check.perturb("findings") as check:
        ...     for batch in loader:
        ...         model(batch).loss.backward()
        ...         check.step()
        >>> for finding in check.findings:
        ...     print(finding)

        The default ``pert_mode="amplification"`` names calls that lose more digits than their inputs explain,
        with the reason. The modes of msprobe's free benchmark (``improve_precision``, ``bit_noise``,
        ``add_noise``, ``change_value``, ``no_change``, ``to_cpu``) compare with a threshold for each dtype.
        ``handler_type="fix"`` continues with the result of the second run (``improve_precision``,
        ``to_cpu``). docs/free-benchmark.md lists the other settings: ``step``, ``rank``, ``list``, …
        """
        from ulpscope._capture.settings.perturb_settings import PerturbSettings

        if pert_mode == "to_cpu":
            settings.setdefault("fuzz_device", "cpu")
        checked = PerturbSettings.from_keywords(
            dump_path, pert_mode=pert_mode, handler_type=handler_type, fuzz_stage=fuzz_stage, **settings
        )
        from ulpscope._perturbation.perturbation import Perturbation

        return Perturbation(checked, model)

    def significant_bits(
        self, program: Callable[[], Any], samples: int = 4, seed: int = 0
    ) -> SignificantBits:
        """Runs ``program`` several times with rounding noise, and counts the bits that can be trusted.

        >>> def program():
        ...     model.zero_grad()
        ...     model(batch).loss.backward()
        >>> print(ulpscope.check.significant_bits(program))

        The program must compute the same each time; random numbers are repeated. With a backward pass in it,
        the report also ranks calls: where more precision helps the result most, and where less is safe.
        """
        from ulpscope._perturbation.significance import measure

        return measure(program, samples, seed)


def _several(given: Any) -> tuple[Any, ...]:
    """One value, or several. Some models can be iterated, but a model is one value."""
    return (given,) if isinstance(given, str) or callable(given) else tuple(given)


check = Check()
