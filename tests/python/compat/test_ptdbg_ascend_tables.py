"""The communication functions and the operators of an NPU that ptdbg_ascend's guide lists, one by one."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

import ulpscope
from two_ranks import run_two_ranks

TAG = "ptdbg_dump_v4.0.T2"

COMMUNICATION = [
    "send",
    "recv",
    "broadcast",
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "isend",
    "irecv",
    "scatter",
    "reduce_scatter",
    "_reduce_scatter_base",
    "_all_gather_base",
]

RANKS = """
import sys, time
rank, folder = int(sys.argv[1]), sys.argv[2]
from ulpscope.compat.ptdbg_ascend import *
seed_all()
set_dump_path(folder)
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
register_hook(model, acc_cmp_dump)
set_dump_switch("ON", mode="api_list", api_list=["distributed"])
x = lambda: torch.full((2,), rank + 1.0)
both = lambda: [torch.zeros(2), torch.zeros(2)]
torch.relu(x())
if rank == 0:
    dist.send(x(), 1)
    dist.isend(x(), 1).wait()
else:
    dist.recv(torch.zeros(2), 0)
    dist.irecv(torch.zeros(2), 0).wait()
dist.broadcast(x(), 0)
dist.all_reduce(x())
dist.reduce(x(), 0)
dist.all_gather(both(), x())
dist.gather(x(), both() if rank == 0 else None, 0)
dist.scatter(torch.zeros(2), [x(), x()] if rank == 0 else None, 0)
dist._all_gather_base(torch.zeros(4), x())
for reduce in (
    lambda: dist.reduce_scatter(torch.zeros(2), [x(), x()]),
    lambda: dist._reduce_scatter_base(torch.zeros(2), torch.cat([x(), x()])),
):
    try:
        reduce()
    except (RuntimeError, NotImplementedError) as error:
        # Older releases of gloo lack it. The call is recorded nevertheless.
        assert "not" in str(error), error
set_dump_switch("OFF")
set_dump_path(folder, dump_tag="one")
register_hook(model, acc_cmp_dump, rank=1)
set_dump_switch("ON")
model(x()).sum().backward()
dist.all_reduce(x())
set_dump_switch("OFF")
set_dump_path(folder, dump_tag="over")
register_hook(model, overflow_check, overflow_nums=2)
try:
    for number in range(3):
        torch.exp(torch.full((2,), 1e3 if rank == 0 or number == 0 else 0.0))
        if number == 0:
            dist.barrier()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        torch.exp(torch.zeros(2))
    raise AssertionError("rank 0 has ended, and this one has not")
except ValueError as error:
    assert str(error).startswith("[overflow 2 times]: dump file is saved in "), error
    assert str(error).endswith(" (rank 0)") == (rank == 1), error
    assert "Torch_exp_1_forward_2.pkl" in str(error), error
dist.barrier()
"""

# As the guide numbers them; it has npu_roi_align twice.
NPU = [
    "one_",
    "npu_sort_v2",
    "npu_transpose",
    "npu_broadcast",
    "npu_dtype_cast",
    "empty_with_format",
    "npu_one_hot",
    "npu_stride_add",
    "npu_ps_roi_pooling",
    "npu_roi_align",
    "npu_nms_v4",
    "npu_iou",
    "npu_nms_with_mask",
    "npu_pad",
    "npu_bounding_box_encode",
    "npu_bounding_box_decode",
    "npu_batch_nms",
    "npu_slice",
    "_npu_dropout",
    "npu_indexing",
    "npu_ifmr",
    "npu_max",
    "npu_scatter",
    "npu_layer_norm_eval",
    "npu_alloc_float_status",
    "npu_get_float_status",
    "npu_clear_float_status",
    "npu_confusion_transpose",
    "npu_bmmV2",
    "fast_gelu",
    "npu_sub_sample",
    "npu_deformable_conv2d",
    "npu_mish",
    "npu_anchor_response_flags",
    "npu_yolo_boxes_encode",
    "npu_grid_assign_positive",
    "npu_normalize_batch",
    "npu_masked_fill_range",
    "npu_linear",
    "npu_bert_apply_adam",
    "npu_giou",
    "npu_ciou",
    "npu_diou",
    "npu_sign_bits_pack",
    "npu_sign_bits_unpack",
    "npu_flash_attention",
    "npu_scaled_masked_softmax",
    "npu_rotary_mul",
    "npu_roi_alignbk",
    "npu_ptiou",
    "npu_fusion_attention",
]


def names(pkl: Path) -> list[str]:
    return [json.loads(line)[0] for line in pkl.read_text().splitlines()]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("ranks")
    run_two_ranks(RANKS, folder)
    assert sorted(path.name for path in (folder / TAG).iterdir()) == ["rank0", "rank1"]
    return [folder / TAG / f"rank{rank}" for rank in range(2)]


@pytest.mark.parametrize("function", COMMUNICATION)
def test_communication_is_dumped_with_its_input_before_the_call(ranks: list[Path], function: str) -> None:
    here = ranks[1] if function in ("recv", "irecv") else ranks[0]
    found = names(here / "api_list_dump.pkl")
    start = f"Distributed_{function}_0_forward_"
    assert any(name.startswith(f"{start}input") for name in found), found
    assert all(name.startswith("Distributed_") for name in found)


def test_communication_has_its_output_after_the_call(ranks: list[Path]) -> None:
    def array(name: str, rank: int = 0) -> list[float]:
        return ulpscope.load(ranks[rank] / "api_list_dump" / f"{name}.npy", "torch").tolist()

    assert array("Distributed_all_reduce_0_forward_input.0") == [1.0, 1.0]
    outputs = [
        name for name in names(ranks[0] / "api_list_dump.pkl") if "all_reduce_0_forward_output" in name
    ]
    assert array(outputs[0]) == [3.0, 3.0]
    received = [name for name in names(ranks[1] / "api_list_dump.pkl") if "_recv_0_forward_output" in name]
    assert [1.0, 1.0] in [array(name, 1) for name in received if array(name, 1) != 0]


def test_one_rank_of_a_parallel_model_is_dumped_with_its_communication(ranks: list[Path]) -> None:
    folder = ranks[0].parents[1] / "one_v4.0.T2"
    assert [path.name for path in folder.iterdir()] == ["rank1"]
    found = names(folder / "rank1" / "dump.pkl")
    assert "Functional_linear_0_backward_input.0" in found
    assert any(name.startswith("Distributed_all_reduce_0_forward_output") for name in found)


def test_each_rank_counts_its_own_overflows_and_all_end_when_one_has_enough(ranks: list[Path]) -> None:
    """The script asserts with which error each rank ends."""
    folder = ranks[0].parents[1] / "over_v4.0.T2"
    found = {rank: sorted(path.name for path in (folder / rank).glob("*.pkl")) for rank in ("rank0", "rank1")}
    first, second = "Torch_exp_0_forward_1.pkl", "Torch_exp_1_forward_2.pkl"
    assert found == {"rank0": [first, second], "rank1": [first]}


def test_operators_of_an_npu_are_dumped_by_name(ptdbg: ModuleType, tmp_path: Path) -> None:
    """With a stand-in that registers operators under `torch.ops.npu`, as torch_npu does, except for one."""
    present = [name for name in NPU if name != "npu_ptiou"]
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.Linear(2, 2), ptdbg.acc_cmp_dump)
    with torch.library._scoped_library("npu", "DEF") as library:
        for name in present:
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x: x * 2, "CompositeExplicitAutograd")
        ptdbg.set_dump_switch("ON", mode="api_list", api_list=["npu_"])
        for name in present:
            getattr(torch.ops.npu, name)(torch.ones(2))
        ptdbg.set_dump_switch("OFF")
    found = names(tmp_path / TAG / "rank0" / "api_list_dump.pkl")
    assert found == [f"NPU_{name}_0_forward_{side}" for name in present for side in ("input.0", "output")]
