"""Types of the compiled core; checked against the binary by stubtest."""

import os
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, final, overload

from ulpscope._diffs import Diffs

__all__ = [
    "CapturedGraph",
    "Comparison",
    "Diff",
    "Divergence",
    "DumpCall",
    "DumpRank",
    "DumpTensor",
    "DumpValue",
    "ElementDiff",
    "FileTensor",
    "FormatError",
    "HookPlacer",
    "Judgement",
    "OpenCall",
    "RankUnit",
    "Recorder",
    "Region",
    "RegionCall",
    "Stats",
    "UnitQueue",
    "Unread",
    "__version__",
    "answer_about_files",
    "answer_unit",
    "compare",
    "detail_columns",
    "diff",
    "digest",
    "find_dump",
    "judge_ratios",
    "judge_result",
    "open_dump",
    "open_rank",
    "pack_size",
    "rank_units",
    "ratio_columns",
    "reach",
    "read_file",
    "recorded_formats",
    "recorded_statistics",
    "restore",
    "returns_blank",
    "run_command",
    "stats",
    "write_file",
    "write_sheet",
]

__version__: str
"""The version of Ulpscope."""

class FormatError(ValueError):
    """A file that cannot be read: which, where in it, what was expected and what was found."""

_Path = str | os.PathLike[str]
# Steps or ranks: 3, [0, "2-4"], "0,2-4".
_Numbers = int | str | Iterable[int | str]
_Style = Literal["native", "msprobe", "msprobe-1", "ptdbg", "ptdbg-6", "torch_npu"]
_Matching = Literal["auto", "exact", "shape", "fuzzy", "align"]
_DigestKind = Literal["xxh3", "crc32", "md5", "mix64"]

def compare(
    target: _Path,
    golden: _Path,
    *,
    style: _Style = "native",
    match: _Matching | None = None,
    step: _Numbers | None = None,
    rank: _Numbers | None = None,
    data_mapping: _Path | None = None,
    cell_mapping: _Path | None = None,
    layer_mapping: _Path | None = None,
    noise: _Path | None = None,
    target_data: _Path | None = None,
    golden_data: _Path | None = None,
    prove: bool = False,
    engine: Literal["threads", "ray"] = "threads",
    address: str | None = None,
    located: _Path | None = None,
    move_limit: int = 1 << 30,
    parallel: str | None = None,
) -> Comparison:
    """Compares two dumps, checkpoints or folders of tensors: target is suspected, golden is trusted.

    ``style``: "native", or the rules and columns of an older tool. ``match``: how calls are paired.
    ``step`` and ``rank``: 3, [0, "2-4"], "0,2-4". ``noise``: a second golden run; differences of the size
    found between it and golden count as noise. The mappings are msprobe's files that pair entries, cells and
    layers. ``target_data`` and ``golden_data``: the folders of the tensors, if they are not beside the
    dump.json or .pkl. ``prove``: replays blamed calls in raised precision from their recorded inputs, which
    proves or refutes each verdict and says which side is wrong; needs tensors in the dumps, and torch.
    ``parallel``: how the ranks of target share the work of golden's one process, as in "tp=2,dp=4"; their
    tensors are merged before they are compared.
    ``engine``: "threads" of this process, or "ray": tasks of the Ray cluster at ``address`` ("auto", "local",
    "HOST:PORT", "ray://HOST:PORT"). ``located``: "auto" or a map of ``ulpscope locate``, if every node has
    ranks of its own; ``move_limit``: how many bytes of tensors may be moved for a rank whose two sides are on
    different nodes, the rest is compared by statistics. The result is the same on every engine.
    """

@final
class Comparison:
    """The result of comparing two dumps. It is true if everything was compared and agrees."""

    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def ok(self) -> bool:
        """Whether everything was compared and agrees: the command would end with exit code 0."""
    @property
    def agreement(self) -> str:
        """``"agree"``, ``"differ"`` or ``"inconclusive"``."""
    @property
    def reason(self) -> str:
        """Why, in one sentence."""
    @property
    def advice(self) -> list[str]:
        """The row to look at, as older tools write it to advisor_{timestamp}.txt: one text per rank."""
    @property
    def columns(self) -> list[str]:
        """The names of a row's values, in order."""
    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per compared tensor or value, in order of execution."""
    @property
    def first_divergence(self) -> Divergence | None:
        """The first call that introduced an error; ``None`` if no call did.

        With several ranks: of the first step that differs, preferably on a rank that introduced the error
        and did not receive it from others.
        """
    @property
    def divergences(self) -> list[Divergence]:
        """Every call that introduced an error, in order of steps, ranks and execution."""
    @property
    def refuted(self) -> list[Divergence]:
        """Calls that seemed to introduce an error until replay refuted it; empty without ``prove``."""
    @property
    def summary(self) -> dict[str, Any]:
        """Counts over all ranks: compared calls and entries, verdicts, unpaired calls."""
    @property
    def problems(self) -> list[str]:
        """What could not be read or compared, one message each."""
    @property
    def partnerless(self) -> list[tuple[str, str, str]]:
        """Calls that only one side has: ``(side, name, reason)``."""
    @property
    def lone_ranks(self) -> list[str]:
        """Steps and ranks that only one side has."""
    @property
    def notes(self) -> list[str]:
        """Facts about how the comparison was done, such as warnings of the ledgers."""
    def explain(self, lang: Literal["en", "zh"] | None = None) -> str:
        """What broke, where, how large it is, how sure that is, and what to do next, as text.

        ``lang``: English or Chinese; without it, the language of the comparison (``ULPSCOPE_LANG``, else
        English).
        """
    def to_csv(self, path: _Path) -> None:
        """Writes the rows as .csv."""
    def to_xlsx(self, path: _Path) -> None:
        """Writes the rows as a workbook."""
    def save(self, path: _Path) -> None:
        """Writes the rows in the format that ``path`` ends in, such as .csv or .xlsx."""
    def to_json(self, path: _Path | None = None) -> str:
        """Returns everything, including rows, as JSON text; also writes it to ``path`` if given."""
    @overload
    def to_html(self, path: None = None, *, dumps: bool = True) -> str:
        """Returns everything as one html page, which needs no network.

        ``dumps``: whether stacks, data flow and values of tensors are read from the dumps, if they are there.
        """
    @overload
    def to_html(self, path: _Path, *, dumps: bool = True) -> None:
        """Writes that page to ``path``, or as report.html into that folder, and returns nothing.

        A file that is there and does not end in .html is no page, and stays as it is: an ``OSError``.
        """
    def to_pandas(self) -> Any:
        """Returns the rows as a pandas ``DataFrame``."""
    def _repr_html_(self) -> str: ...

@final
class Divergence:
    """A call at which two runs stop agreeing."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def _repr_html_(self) -> str: ...
    @property
    def call(self) -> str:
        """The name of the call in the target."""
    @property
    def golden_call(self) -> str | None:
        """The name of the paired call in the golden; ``None`` if there is none."""
    @property
    def region(self) -> Region | None:
        """Where two programs, or two updates of a parameter, part: the calls of both between.

        ``None`` if one call is to blame.
        """
    @property
    def module(self) -> str | None:
        """The module that the call runs in."""
    @property
    def code(self) -> str | None:
        """The line of the user's code that made the call."""
    @property
    def inner_code(self) -> str | None:
        """The innermost line outside of torch, such as a library's; ``None`` if that is ``code``."""
    @property
    def golden_code(self) -> str | None:
        """The line of the user's code that made the paired call in the golden."""
    @property
    def golden_inner_code(self) -> str | None:
        """The innermost line outside of torch in the golden; ``None`` if that is ``golden_code``."""
    @property
    def kind(self) -> str:
        """The verdict, such as ``"diverged here"`` or ``"origin differs"``."""
    @property
    def entry(self) -> str:
        """The tensor that shows the error most: ``output.0``, ``input.1``."""
    @property
    def why(self) -> str:
        """The reason for the verdict, in words."""
    @property
    def confidence(self) -> float:
        """How sure the verdict is, from 0 to 1."""
    @property
    def line(self) -> int:
        """The line of ``entry`` in the csv; the header is line 1."""
    @property
    def stack(self) -> list[str]:
        """The stack of the call, innermost frame first."""
    @property
    def step(self) -> int | None:
        """The step; ``None`` in dumps without steps."""
    @property
    def rank(self) -> str:
        """The folder of the rank in the target."""
    @property
    def error(self) -> float | None:
        """The relative error of ``entry``; ``None`` if it has none."""
    @property
    def floor(self) -> float | None:
        """The relative error that rounding and the inputs of the call explain."""
    @property
    def downstream(self) -> int:
        """How many later calls inherit the error."""
    @property
    def direction(self) -> str:
        """``"forward"`` or ``"backward"``."""
    @property
    def proof(self) -> str | None:
        """``"proved"``, ``"refuted"`` or ``"not replayable"``; ``None`` without ``prove``."""
    @property
    def proof_reason(self) -> str | None:
        """Why replay could not decide; ``None`` if it did."""
    @property
    def wrong_side(self) -> str | None:
        """Who is far from the call in raised precision: ``"target"``, ``"golden"`` or ``"both"``."""
    @property
    def target_own_error(self) -> float | None:
        """The relative error of the target's result against the same call in raised precision."""
    @property
    def golden_own_error(self) -> float | None:
        """The same of the golden's."""

@final
class Region:
    """Calls of two programs that lie between values that agree and the first that do not."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def target(self) -> list[RegionCall]:
        """The calls of the target, in execution order."""
    @property
    def golden(self) -> list[RegionCall]:
        """The calls of the golden, in execution order."""
    @property
    def after(self) -> list[tuple[RegionCall, RegionCall]]:
        """Calls of the target and of the golden whose results go into it and agree, the nearest first."""
    @property
    def before(self) -> tuple[RegionCall, RegionCall]:
        """The calls of the target and of the golden at its end, whose results differ."""

@final
class RegionCall:
    """A call of a ``Region``."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def name(self) -> str:
        """Its name."""
    @property
    def role(self) -> str:
        """Its part in the region.

        ``"first"`` to look at, ``"computes"``, ``"other"`` (moves elements, or uses no parameter),
        ``"after"`` or ``"before"`` (at an end of the region).
        """
    @property
    def position(self) -> int:
        """How many calls its run recorded before it."""
    @property
    def module(self) -> str | None:
        """The module that made it."""
    @property
    def code(self) -> str | None:
        """The innermost line outside of torch that made it."""
    @property
    def results(self) -> list[tuple[str, list[int] | None]]:
        """Dtype and shape of the tensors that it returned."""

@final
class Stats:
    """Statistics of one tensor, computed in one pass in float64."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions, outermost first."""
    @property
    def dtype(self) -> str:
        """Element type, by torch's name."""
    @property
    def max(self) -> bool | int | float | None:
        """Largest element; NaN if there is one; ``None`` for an empty tensor."""
    @property
    def min(self) -> bool | int | float | None:
        """Smallest element; NaN if there is one; ``None`` for an empty tensor."""
    @property
    def mean(self) -> float | None:
        """Mean, summed in float64; ``None`` for an empty tensor."""
    @property
    def norm(self) -> float:
        """L2 norm, summed in float64."""
    @property
    def nan(self) -> int:
        """Number of elements that are NaN."""
    @property
    def pos_inf(self) -> int:
        """Number of elements that are +Inf."""
    @property
    def neg_inf(self) -> int:
        """Number of elements that are -Inf."""
    @property
    def zeros(self) -> int:
        """Number of elements equal to zero, of either sign."""
    @property
    def subnormals(self) -> int:
        """Number of non-zero elements too small for a full mantissa in their own dtype."""
    @property
    def finite_max(self) -> bool | int | float | None:
        """Largest finite element; ``None`` if there is none."""
    @property
    def finite_min(self) -> bool | int | float | None:
        """Smallest finite element; ``None`` if there is none."""
    def to_json(self) -> str:
        """The fields as JSON text; NaN and infinities are the strings "NaN", "Infinity", "-Infinity"."""
    def _repr_html_(self) -> str: ...

@final
class ElementDiff:
    """One element on both sides."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def coordinates(self) -> tuple[int, ...]:
        """One index per dimension."""
    @property
    def index(self) -> int:
        """Row-major position."""
    @property
    def target(self) -> bool | int | float | complex:
        """The target's element."""
    @property
    def golden(self) -> bool | int | float | complex:
        """The golden's element."""
    @property
    def abs(self) -> float:
        """Absolute difference; NaN if one side is not finite."""
    @property
    def rel(self) -> float | None:
        """Relative difference; ``None`` if golden is zero."""

@final
class Diff:
    """How two tensors differ. It is true if they agree within the tolerance."""

    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def ok(self) -> bool:
        """Whether every pair is within the tolerance: the command would end with exit code 0."""
    @property
    def agrees(self) -> bool:
        """The same as ``ok``."""
    @property
    def count(self) -> int:
        """Number of pairs of elements."""
    @property
    def finite(self) -> int:
        """Number of pairs that are finite on both sides; distances are taken over these."""
    @property
    def equal(self) -> bool:
        """Whether dtype and every bit are the same."""
    @property
    def cosine(self) -> float | None:
        """Cosine of the angle between the two as vectors; 1 if both are zero, ``None`` if one is."""
    @property
    def euclid(self) -> float:
        """L2 norm of the difference."""
    @property
    def rel_l2(self) -> float:
        """``euclid`` divided by the L2 norm of golden."""
    @property
    def rmse(self) -> float:
        """Root of the mean squared difference."""
    @property
    def mape(self) -> float:
        """Mean relative difference in percent."""
    @property
    def max_abs(self) -> float:
        """Largest absolute difference."""
    @property
    def mean_abs(self) -> float:
        """Mean absolute difference."""
    @property
    def max_rel(self) -> float:
        """Largest relative difference, over pairs where golden is not zero."""
    @property
    def mean_rel(self) -> float:
        """Mean relative difference, over pairs where golden is not zero."""
    @property
    def accumulated_rel(self) -> float:
        """Sum of the relative differences."""
    @property
    def kl(self) -> float | None:
        """Kullback-Leibler divergence of the two, scaled to distributions; ``None`` unless all is finite."""
    @property
    def under_1e3(self) -> float:
        """Share of pairs with a relative difference under 1/1000."""
    @property
    def under_5e3(self) -> float:
        """Share of pairs with a relative difference under 5/1000."""
    @property
    def zero_golden(self) -> int:
        """Number of pairs where golden is zero and target is not."""
    @property
    def non_finite_mismatched(self) -> int:
        """Number of pairs with a non-finite side where the other is finite or another non-finite value."""
    @property
    def max_ulp(self) -> int | None:
        """Largest distance in units in the last place; ``None`` unless both have the same real dtype."""
    @property
    def mean_ulp(self) -> float | None:
        """Mean distance in units in the last place; ``None`` unless both have the same real dtype."""
    @property
    def over_tolerance(self) -> int:
        """Number of pairs over the tolerance, including non-finite mismatches."""
    @property
    def needed_atol(self) -> float:
        """The smallest ``atol`` that passes with the given ``rtol``."""
    @property
    def needed_rtol(self) -> float:
        """The smallest ``rtol`` that passes with the given ``atol``."""
    @property
    def worst_index(self) -> int | None:
        """Row-major position of the worst element; ``None`` if all agree."""
    @property
    def exponents(self) -> list[tuple[int, int]]:
        """Sizes of the absolute differences: ``(e, count)`` for those from 2^e up to 2^(e+1)."""
    @property
    def first_failing(self) -> list[ElementDiff]:
        """The first elements over the tolerance, in order."""
    @property
    def worst(self) -> list[ElementDiff]:
        """The elements with the largest absolute difference, largest first."""
    def to_json(self) -> str:
        """The fields as JSON text; NaN and infinities are the strings "NaN", "Infinity", "-Infinity"."""
    def _repr_html_(self) -> str: ...

@final
class FileTensor:
    """A tensor of a file, in memory or mapped. Writing to it never changes the file."""

    @property
    def dtype(self) -> str:
        """Element type, by torch's name."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions, outermost first."""
    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
    @property
    def aligned(self) -> bool:
        """Whether the address of the first element is a multiple of its size, as frameworks expect."""
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(self, **_options: Any) -> Any: ...

@final
class Unread:
    """Something in a file that was not read: a tensor of an unknown kind, or an object that is no tensor."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def reason(self) -> str:
        """Why it was not read."""

# A dictionary, or a file with several tensors, gives a dictionary by name; anything else a single result.
@overload
def stats(x: str | os.PathLike[str]) -> Stats | dict[str, Stats]: ...
@overload
def stats(x: dict[Any, Any]) -> dict[str, Stats]: ...
@overload
def stats(x: Any) -> Stats:
    """Statistics of a torch tensor, a numpy array or a file.

    A dictionary, or a file with several tensors, gives a dictionary of ``Stats`` by name.
    """

def pack_size(tensors: list[tuple[str, str, tuple[int, ...]]]) -> tuple[int, int]:
    """The number of files, and their bytes, that a pack of tensors takes: names, dtypes and shapes."""

def recorded_formats() -> list[str]: ...
def recorded_statistics(stats: Stats | None) -> dict[str, Any]: ...
@overload
def diff(
    target: str | os.PathLike[str],
    golden: str | os.PathLike[str],
    *,
    atol: float = 0.001,
    rtol: float = 0.001,
    elements: int = 10,
) -> Diff | Diffs: ...
@overload
def diff(
    target: dict[Any, Any],
    golden: dict[Any, Any] | str | os.PathLike[str],
    *,
    atol: float = 0.001,
    rtol: float = 0.001,
    elements: int = 10,
) -> Diffs: ...
@overload
def diff(
    target: str | os.PathLike[str],
    golden: dict[Any, Any],
    *,
    atol: float = 0.001,
    rtol: float = 0.001,
    elements: int = 10,
) -> Diffs: ...
@overload
def diff(target: Any, golden: Any, *, atol: float = 0.001, rtol: float = 0.001, elements: int = 10) -> Diff:
    """Compares two tensors, arrays, files or dictionaries: target is suspected, golden is trusted.

    A pair is within the tolerance if ``abs(target - golden) <= atol + rtol * abs(golden)``. ``first_failing``
    and ``worst`` list at most ``elements`` elements. Dictionaries, and files with several tensors, are
    compared name by name; the result is ``Diffs``, a dictionary of
    ``Diff`` by name.
    """

def digest(x: Any, kind: _DigestKind = "xxh3") -> str:
    """The digest of a tensor's bytes in row-major order, in hex."""

def read_file(
    path: str | os.PathLike[str],
    convert: Callable[[FileTensor], Any] | None = None,
    *,
    mmap: bool = False,
) -> Any: ...
def restore(kind: str, state: bytes) -> Any: ...
def write_file(path: str | os.PathLike[str], x: Any) -> None: ...
def run_command(arguments: list[str]) -> int: ...

@final
class HookPlacer:
    """Replaces torch's function that puts a hook into the dictionary of a node."""

    def __new__(cls, standing: Callable[[Any, Any], tuple[Any, Any]]) -> HookPlacer: ...
    def place(self, hooks: Any, hook: Any) -> tuple[Any, Any]: ...

@final
class CapturedGraph:
    """A graph that was captured while it was recorded."""

@final
class OpenCall:
    """A call that has begun and not ended."""

    def writes(self, places: list[str]) -> None: ...

@final
class Recorder:
    """Records the calls of a run. As a torch function mode it sees every call of torch's Python functions."""

    MAX_DEPTH: ClassVar[int]
    def __new__(cls, front: Any, settings: Any) -> Recorder: ...
    def __torch_function__(self, func: Any, types: Any, args: Any = None, kwargs: Any = None) -> Any: ...
    def hint(self, name: str) -> None: ...
    def let_go(self, tensor: Any) -> tuple[str | None, str | None]: ...
    def know_again(self, tensor: Any, made: str | None, origin: str | None) -> None: ...
    def see_operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def begin(
        self, prefix: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None
    ) -> OpenCall | None: ...
    def end(self, call: OpenCall, output: Any, parameters: dict[str, Any] | None = None) -> None: ...
    def raised(self, call: OpenCall, kind: str) -> None: ...
    def raised_module(self, call: OpenCall, module: Any, kind: str) -> None: ...
    def add_module(self, module: Any, base: str | None, is_muted: bool, is_selected: bool) -> None: ...
    def forget_module(self, address: int) -> None: ...
    def add_origin(self, tensor: Any, source: str) -> None: ...
    def forget_model(self) -> None: ...
    def is_outermost(self) -> bool: ...
    def innermost_module(self) -> str | None: ...
    def enter_module(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpenCall | None: ...
    def leave_module(
        self, call: OpenCall, module: Any, output: Any, parameters: dict[str, Any] | None = None
    ) -> None: ...
    def parameter_gradient(self, base: str, name: str, gradient: Any, source: str | None = None) -> None: ...
    def begin_pass(self) -> None: ...
    def end_pass(self) -> None: ...
    def save_as(self, name: str, number: int, value: Any) -> None: ...
    def is_untouched(self, origin: Any) -> bool: ...
    def is_as_returned(self, tensor: Any) -> bool: ...
    def next_model_call(self) -> tuple[int, bool]: ...
    def returned(self, tensors: dict[str, Any]) -> None: ...
    def step_end(self, what: str, number: int, tensors: dict[str, Any]) -> None: ...
    def prepare_for_graph(self, device: int) -> bool: ...
    def begin_graph(self, device: int) -> bool: ...
    def end_graph(self) -> CapturedGraph | None: ...
    def begin_replay(self, graph: CapturedGraph) -> None: ...
    def end_replay(self, graph: CapturedGraph) -> bool: ...
    def note(self, text: str) -> None: ...
    def note_in(self, folder: Any, text: str) -> None: ...
    def note_once(self, text: str) -> None: ...
    def start(self, folder: Any) -> None: ...
    def collect(self, folder: Any) -> None: ...
    def move_to(self, folder: Any) -> None: ...
    def take_would_overflow(self) -> list[tuple[str, int, int, int]]: ...
    def judge_devices(self) -> None: ...
    def set_scaling(self, is_scaling: bool) -> None: ...
    def end_forward(self) -> None: ...
    def withdraw(self) -> None: ...
    def stop(self) -> None: ...
    def next_step(self, wants_dump: bool, next_folder: Any) -> None: ...

def open_dump(
    path: _Path, step: _Numbers | None = None, rank: _Numbers | None = None
) -> tuple[list[DumpRank], list[str]]:
    """Opens the ranks of a dump, in order of steps and ranks. Returns them, and what could not be read."""

@final
class DumpRank:
    """One rank of one step."""

    @property
    def step(self) -> int | None:
        """The number of the step; ``None`` in dumps without steps."""
    @property
    def name(self) -> str:
        """The name of the rank's folder; empty if there is none."""
    @property
    def number(self) -> int | None:
        """The number of the rank, if its folder has one."""
    @property
    def is_cut(self) -> bool:
        """Whether capture ended before the step did: calls may be missing."""
    @property
    def tool(self) -> str:
        """The tool that wrote it."""
    @property
    def path(self) -> Any:
        """Where it was read from, as a ``pathlib.Path``."""
    def calls(self) -> list[str]:
        """The names of the calls, in order."""
    def call(self, number: int) -> DumpCall | None:
        """The arguments and results of a call; ``None`` if its tool does not record them all."""

@final
class DumpCall:
    """The arguments and results of a call, in lists and dictionaries as they were passed."""

    @property
    def positional(self) -> list[Any]:
        """Arguments by position."""
    @property
    def keyword(self) -> dict[str, Any]:
        """Arguments by name."""
    @property
    def results(self) -> list[Any]:
        """Results."""
    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of a module."""

@final
class DumpTensor:
    """A tensor of a call, as recorded."""

    @property
    def dtype(self) -> str:
        """Element type, ``torch.float32``."""
    @property
    def class_name(self) -> str:
        """The class; empty if unknown."""
    @property
    def shape(self) -> list[int] | None:
        """The dimensions; ``None`` if they were not recorded."""
    @property
    def strides(self) -> list[int] | None:
        """The strides in elements; ``None`` if they were not recorded."""
    @property
    def requires_grad(self) -> bool:
        """Whether it required a gradient."""
    @property
    def source(self) -> str | None:
        """The entry that produced it, if recorded."""
    @property
    def is_blank(self) -> bool:
        """Whether it is uninitialised memory."""
    @property
    def is_changed(self) -> bool:
        """Whether its call had changed it before it was recorded."""
    @property
    def has_data(self) -> bool:
        """Whether its elements are in the dump."""
    def statistics(self) -> dict[str, Any]:
        """The recorded statistics by their keys."""
    def load(self) -> FileTensor | None:
        """Its elements; ``None`` if only statistics were recorded."""

@final
class DumpValue:
    """A plain value of a call."""

    @property
    def kind(self) -> str:
        """``int``, ``torch.dtype``; empty if it is not described by a kind."""
    @property
    def value(self) -> Any:
        """The value."""

def judge_result(
    api: str,
    result: Any,
    reference: Any,
    *,
    moved: tuple[Any, Any] | None = None,
    shift: float = 1.0,
    terms: float = 1.0,
    coarsest: str | None = None,
    peer: Any | None = None,
    standards: bool = True,
) -> Judgement:
    """Judges the result of a call against the same call in raised precision."""

@final
class Judgement:
    """What became of a call's result."""

    @property
    def status(self) -> Literal["pass", "warning", "error"]:
        """By rounding alone."""
    @property
    def cascade(self) -> Literal["pass", "warning", "error", ""]:
        """By msprobe's cascade; empty if it was not measured."""
    @property
    def standard(self) -> str:
        """The standard that msprobe has for the API."""
    @property
    def by_standard(self) -> Literal["pass", "warning", "error"] | None:
        """By that standard; ``None`` if it needs the result of a different device, or was not measured."""
    @property
    def message(self) -> str:
        """Why, in words."""
    @property
    def error(self) -> float:
        """The error relative to the reference."""
    @property
    def floor(self) -> float:
        """What rounding explains of it."""
    @property
    def ratio(self) -> float:
        """How many times what rounding explains."""
    @property
    def limits(self) -> tuple[float, float]:
        """The largest errors that pass, absolute: of the whole tensor (L2), and of one element."""
    def measured(self) -> list[Any]:
        """The measured values of a row of details."""

def detail_columns() -> list[str]:
    """The columns of the details of a check."""

def reach(tensor: Any) -> int | None:
    """How far a tensor's largest magnitude goes: 0 in range, 1 its dtype's largest, 2 infinity, 3 NaN.

    None for a tensor that is not in ordinary memory: nothing is copied.
    """

def returns_blank(function: str) -> bool:
    """Whether the results of a function, ``"empty_like"``, are uninitialised memory."""

def judge_ratios(
    api: str, dtype: str, own: dict[str, str], peer: dict[str, str]
) -> tuple[Literal["pass", "warning", "error", "SKIP"], str, list[Any]]:
    """Judges a row of details by the same row of a different device: status, message and cells."""

def ratio_columns() -> list[str]:
    """The columns of these rows."""

def write_sheet(path: _Path, columns: list[str], rows: Iterable[Iterable[Any]]) -> None:
    """Writes a sheet in the format of its name's suffix."""

def answer_about_files(question: str) -> bytes:
    """Answers a question of a different node about the files of a rank here."""

def answer_unit(
    job: str,
    folder: _Path | None = None,
    node: str | None = None,
    ask: Callable[[list[str], str], bytes] | None = None,
) -> tuple[str, bytes, list[str]]:
    """Compares the pair of ranks of a job: the answer, its rows and the sheets that were written.

    ``ask`` has a question about files answered by one of some nodes.
    """

@final
class RankUnit:
    """A rank of a dump, and where it can be read."""

    @property
    def label(self) -> str:
        """Its name."""
    @property
    def step(self) -> int | None:
        """The number of the step."""
    @property
    def place(self) -> str:
        """What `open_rank` opens."""
    @property
    def inputs(self) -> str:
        """What tells whether its files changed."""
    @property
    def bytes(self) -> int:
        """The size of its files."""
    @property
    def nodes(self) -> list[str] | None:
        """The nodes that have it; None: all."""
    @property
    def why(self) -> str | None:
        """Why no node can answer for it."""

def rank_units(
    engine: Any, path: _Path, step: _Numbers | None, rank: _Numbers | None, located: _Path | None
) -> tuple[list[RankUnit], list[str]]:
    """The ranks of a dump for an engine, in order, and what could not be searched."""

def open_rank(place: str, step: int | None) -> tuple[DumpRank, list[str]]:
    """Opens the rank that a `RankUnit` names. Returns it with what could not be read."""

def find_dump(path: _Path) -> str | None:
    """What this machine has of a dump; None if it has no such path."""

@final
class UnitQueue:
    """The units of a comparison that are to be answered."""

    def __len__(self) -> int: ...
    def open(self) -> list[int]: ...
    def label(self, number: int) -> str: ...
    def size(self, number: int) -> int: ...
    def nodes(self, number: int) -> list[str] | None: ...
    def job(self, number: int) -> str: ...
    def deliver(self, number: int, answer: str, rows: bytes) -> bool: ...
    def fail(self, number: int, why: str) -> None: ...
    @property
    def is_stopped(self) -> bool: ...
