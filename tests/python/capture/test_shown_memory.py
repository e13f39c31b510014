"""What a view shows is what the last call has written there, whoever made the view."""

import pytest
import torch
import torch.distributed as dist

import ulpscope
from captured import Captured, capture_of


def source(captured, call, position=0):
    return captured.calls[call]["input_args"][position]["source"]


def made():
    return torch.arange(16.0) * 1


def with_a_view(show, change):
    """A program that changes a tensor after another view of it was made, and uses that one."""

    def program():
        y = made()
        view = show(y)
        change(y)
        torch.sin(view)

    return program


CHANGED = {
    "the base": (lambda y: y[2:], lambda y: y.mul_(3), "Tensor.mul_.0.forward.input.0"),
    "a view that overlaps": (lambda y: y[2:], lambda y: y[1:3].mul_(3), "Tensor.mul_.0.forward.input.0"),
    "by an assignment": (
        lambda y: y[2:],
        lambda y: y.__setitem__(3, 5),
        "Tensor.__setitem__.0.forward.input.0",
    ),
    "the latest of two": (
        lambda y: y[2:],
        lambda y: (y.mul_(3), y[:3].add_(1)),
        "Tensor.add_.0.forward.input.0",
    ),
    "the one that is shown, of two": (
        lambda y: y[4:],
        lambda y: (y.mul_(3), y[:3].add_(1)),
        "Tensor.mul_.0.forward.input.0",
    ),
    "by the other rows": (
        lambda y: y.view(4, 4)[:2],
        lambda y: y.view(4, 4)[2:].mul_(3),
        "Tensor.__getitem__.0.forward.output.0",
    ),
    "by the other columns": (
        lambda y: y.view(4, 4)[:, :2],
        lambda y: y.view(4, 4)[:, 2:].mul_(3),
        "Tensor.__getitem__.0.forward.output.0",
    ),
    "by columns in common": (
        lambda y: y.view(4, 4)[:, :3],
        lambda y: y.view(4, 4)[:, 2:].mul_(3),
        "Tensor.mul_.0.forward.input.0",
    ),
    "by a transposed one": (
        lambda y: y.view(4, 4)[1],
        lambda y: y.view(4, 4).t()[2].mul_(3),
        "Tensor.mul_.0.forward.input.0",
    ),
    "by every other element": (
        lambda y: y[::2],
        lambda y: y[1::2].mul_(3),
        "Tensor.__getitem__.0.forward.output.0",
    ),
    "by a detached one": (lambda y: y[2:], lambda y: y.detach().mul_(3), "Tensor.mul_.0.forward.input.0"),
    "by its data": (lambda y: y[2:], lambda y: y.data.mul_(3), "Tensor.mul_.0.forward.input.0"),
    "as the place of a result": (
        lambda y: y[2:],
        lambda y: torch.add(torch.ones(4), 1, out=y[1:5]),
        "Torch.add.0.forward.input.out",
    ),
    "as places of results": (
        lambda y: y[2:].view(2, 7),
        lambda y: torch.max(torch.ones(2, 3), 1, out=(y[3:5], torch.zeros(2, dtype=torch.long))),
        "Torch.max.0.forward.input.out.0",
    ),
    "as one of several": (
        lambda y: y[2:],
        lambda y: torch._foreach_add_([torch.ones(2), y[1:4]], 1),
        "Torch._foreach_add_.0.forward.input.0.1",
    ),
}


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("name", CHANGED)
def test_a_view_names_the_last_call_that_wrote_what_it_shows(tmp_path, name, mode):
    show, change, wanted = CHANGED[name]

    def program():
        with mode():
            with_a_view(show, change)()

    captured = capture_of(tmp_path, program)
    assert source(captured, "Torch.sin.0.forward") == wanted


def test_at_the_level_of_operators_too(tmp_path):
    captured = capture_of(tmp_path, with_a_view(*CHANGED["a view that overlaps"][:2]), level="L2")
    assert source(captured, "Aten.sin.0.forward") == "Aten.mul_.0.forward.input.0"


def test_a_view_of_an_earlier_step_names_what_wrote_to_its_own_part(tmp_path):
    flat = torch.zeros(8)
    first, second = flat[:4], flat[4:]
    with ulpscope.capture(tmp_path) as run:
        run.step()
        flat[4:].add_(1)
        first.sin()
        second.sin()
        flat.mul_(2)
        first.cos()
    captured = Captured(tmp_path, 1)
    assert source(captured, "Tensor.sin.0.forward") == "outside"
    assert source(captured, "Tensor.sin.1.forward") == "Tensor.add_.0.forward.input.0"
    assert source(captured, "Tensor.cos.0.forward") == "Tensor.mul_.0.forward.output.0"


def test_a_parameter_that_lies_in_a_buffer_is_changed_with_it(tmp_path):
    model = torch.nn.Linear(4, 1, bias=False)
    buffer = torch.zeros(8)
    model.weight.data = buffer[:4].view(1, 4)

    def program():
        buffer[4:].add_(1)
        model(torch.ones(1, 4))
        buffer.add_(1)
        model(torch.ones(1, 4))

    captured = capture_of(tmp_path, program, model=model)
    assert source(captured, "Functional.linear.0.forward", 1) == "parameter:weight"
    assert source(captured, "Functional.linear.1.forward", 1) == "Tensor.add_.1.forward.input.0"


def test_memory_that_is_taken_again_has_a_new_history(tmp_path):
    places = set()
    taken = []

    def program():
        # The allocator may return any memory, so the program asks for several sizes until it gets memory that
        # was used.
        while not any(taken) and len(taken) < 200:
            size = 1 << 16 >> len(taken) % 8
            y = torch.arange(float(size)) * 1
            places.add(y.data_ptr())
            y[:4].mul_(2)
            del y
            unseen = torch.from_dlpack(torch.ones(size).numpy())
            taken.append(unseen.data_ptr() in places)
            unseen.sin()

    captured = capture_of(tmp_path, program)
    assert any(taken)
    found = {source(captured, f"Tensor.sin.{number}.forward") for number in range(len(taken))}
    assert not [one for one in found if "mul_" in one]


@pytest.mark.skipif(not dist.is_available(), reason="torch was built without collectives")
def test_what_lies_in_the_buffer_of_a_collective_is_received_with_it(tmp_path):
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        bucket = torch.ones(8)
        gradients = [bucket[:4], bucket[4:]]

        def program():
            gradients[0].sin()
            dist.all_reduce(bucket)
            gradients[1].cos()

        with ulpscope.capture(tmp_path):
            program()
    finally:
        dist.destroy_process_group()
    captured = Captured(tmp_path, 0, "rank0")
    assert source(captured, "Tensor.sin.0.forward") == "outside"
    assert source(captured, "Tensor.cos.0.forward") == "Distributed.all_reduce.0.forward.output.0"


def test_compare_finds_the_change_and_blames_no_other_call(tmp_path):
    def program(factor):
        def run():
            y = made()
            shown = y[2:]
            y[1:3].mul_(factor)
            shown.add(1)

        return run

    capture_of(tmp_path / "golden", program(3), task="tensor")
    capture_of(tmp_path / "target", program(4), task="tensor")
    report = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert [one.call for one in report.divergences] == ["Tensor.mul_.0.forward"]
