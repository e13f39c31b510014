"""Dumps in object storage: the results of local ones, by ranged reads alone, whatever the network does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from buckets import BUCKET, Answer, Request, S3Server, Way, variables
from captured import capture_of
from dumps import chain, read_csv, run, write_rank

# The large operand of the packs, and its entry.
SIDE = 1024
LARGE_BYTES = SIDE * SIDE * 4
LARGE = "Functional.linear.0.forward.input.1"


def pack(folder: Path, *, factor: float = 1.0) -> Path:
    """A dump whose tensors are parts of one large file."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(4, SIDE, generator=generator)
    weights = [torch.randn(SIDE, SIDE, generator=generator) / SIDE**0.5 for _ in range(4)]

    def program() -> None:
        y = x
        for number, weight in enumerate(weights):
            y = torch.nn.functional.linear(y, weight)
            if number == 2:
                y = y * factor
        y.sum()

    capture_of(folder, program, task="tensor", file_format="pack")
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def way(server: S3Server) -> Iterator[Way]:
    way = Way(server.port)
    yield way
    way.stop()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Dumps on this machine, by name."""
    folder = tmp_path_factory.mktemp("dumps")
    made = {
        "pack_golden": pack(folder / "pack_golden"),
        "pack_target": pack(folder / "pack_target", factor=1.5),
    }
    for name, fault in (("golden", None), ("target", {2: 1.5})):
        made[name] = folder / name
        for rank in range(2):
            write_rank(made[name] / f"step0/rank{rank}", chain(4, seed=rank, fault=fault if rank else None))
    return made


@pytest.fixture(scope="module")
def remote(server: S3Server, local: dict[str, Path]) -> dict[str, str]:
    """The same dumps in a bucket."""
    return {name: server.upload(folder, f"runs/{name}") for name, folder in local.items()}


def compared(target: object, golden: object, out: Path, **options: Any) -> tuple[int, str, Any]:
    """Exit code, rows, and verdict with everything else that is written, without paths and times."""
    ran = run("compare", target, golden, "-o", out, **options)
    assert (out / "result.json").exists(), ran.stderr
    document = json.loads((out / "result.json").read_text())
    text = json.dumps({**document, "seconds": 0})
    for place, name in ((target, "TARGET"), (golden, "GOLDEN"), (out, "OUT")):
        text = text.replace(str(place), name)
    return ran.returncode, json.dumps(read_csv(out)), json.loads(re.sub(r"(?<=_)20\d{12}", "TIME", text))


@pytest.mark.parametrize("kind", ["", "pack_"])
def test_the_result_is_that_of_local_dumps(
    kind: str, local: dict[str, Path], remote: dict[str, str], way: Way, tmp_path: Path
) -> None:
    """Rows, verdict and exit code, with both sides in a bucket and with one."""
    target, golden = f"{kind}target", f"{kind}golden"
    if not kind:
        # One rank: read_csv reads one sheet.
        step = "step0/rank1"
        local = {name: folder / step for name, folder in local.items() if "pack" not in name}
        remote = {name: f"{address}/{step}" for name, address in remote.items()}
    here = compared(local[target], local[golden], tmp_path / "here")
    both = compared(remote[target], remote[golden], tmp_path / "both", env=way.environment())
    mixed = compared(remote[target], local[golden], tmp_path / "mixed", env=way.environment())
    assert here[0] == 1
    assert both == here
    assert mixed == here


def test_every_command_reads_a_bucket(
    local: dict[str, Path], remote: dict[str, str], way: Way, tmp_path: Path
) -> None:
    """What they print is what they print of the local dump."""
    entry = "Functional.linear.2.forward.output.0"
    rank = "step0/rank1"
    commands = [
        ["ls", "{target}"],
        ["show", "{target}", "Functional.linear.2.forward", "--step", "0", "--rank", "1"],
        ["stats", f"{{target}}/{rank}:{entry}"],
        ["diff", f"{{target}}/{rank}:{entry}", f"{{golden}}/{rank}:{entry}"],
        ["overflow", "{target}"],
    ]
    for words in commands:
        here = run(*(word.format(**local) for word in words))
        there = run(*(word.format(**remote) for word in words), env=way.environment())
        # Widths of columns follow the lengths of paths.
        plain = [
            re.sub(
                r"[─━ ]+", " ", ran.stdout.replace(str(side["target"]), "T").replace(str(side["golden"]), "G")
            )
            for ran, side in ((here, local), (there, remote))
        ]
        assert here.stdout, here.stderr
        assert plain[1] == plain[0], there.stderr
        assert there.returncode == here.returncode, there.stderr
    out = tmp_path / "out"
    compared(f"{remote['target']}/{rank}", f"{remote['golden']}/{rank}", out, env=way.environment())
    explained = run("explain", out / "result.json")
    assert "Functional.linear.2.forward" in explained.stdout
    page = run("report", out / "result.json", "--dumps", "-o", tmp_path / "page.html", env=way.environment())
    built = "was built without" not in page.stderr
    assert not built or (tmp_path / "page.html").exists(), page.stderr


def test_python_reads_a_bucket(
    local: dict[str, Path], remote: dict[str, str], way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ulpscope.compare` takes the address as text."""
    for name, value in variables(way.endpoint).items():
        monkeypatch.setenv(name, value)
    here = ulpscope.compare(local["pack_target"], local["pack_golden"])
    there = ulpscope.compare(remote["pack_target"], remote["pack_golden"])
    assert there.rows == here.rows


def test_of_a_pack_only_what_is_needed_is_read(
    local: dict[str, Path], remote: dict[str, str], way: Way
) -> None:
    """One tensor costs its bytes; a list costs none of the tensors."""
    whole = sum(path.stat().st_size for path in local["pack_golden"].rglob("*.safetensors"))
    assert whole > 4 * LARGE_BYTES
    listed = run("ls", remote["pack_golden"], env=way.environment())
    assert "linear" in listed.stdout, listed.stderr
    assert way.read(r"safetensors$") == 0
    shown = run("stats", f"{remote['pack_golden']}:{LARGE}", env=way.environment())
    assert shown.returncode == 0, shown.stderr
    # The blocks at both ends, and what came when the object was opened.
    assert LARGE_BYTES <= way.read(r"safetensors$") <= LARGE_BYTES + 3 * (256 << 10)
    assert all(request.range for request in way.requests if request.method == "GET" and request.key)


def test_what_is_not_there_is_said_with_bucket_and_key(remote: dict[str, str], way: Way) -> None:
    missing = run("ls", f"s3://{BUCKET}/runs/nothing", env=way.environment())
    assert missing.returncode != 0
    assert f"s3://{BUCKET}/runs/nothing: there is no object or folder of this name" in missing.stderr
    bucket = run("ls", "s3://no-such-bucket/run", env=way.environment())
    assert bucket.returncode != 0
    assert "s3://no-such-bucket/run: there is no" in bucket.stderr


def test_refused_credentials_and_plain_http_say_what_to_set(remote: dict[str, str], way: Way) -> None:
    def refuse(request: Request, before: int, answer: Answer) -> Answer:
        text = b"<Error><Code>SignatureDoesNotMatch</Code><Message>no\x1b[31m</Message></Error>"
        return Answer(403, [("Content-Type", "application/xml")], text)

    with way.changing(refuse):
        ran = run("ls", remote["golden"], env=way.environment())
    assert ran.returncode != 0
    assert "AWS_ACCESS_KEY_ID" in ran.stderr
    assert BUCKET in ran.stderr
    assert "\x1b" not in ran.stderr
    plain = run("ls", remote["golden"], env=way.environment(AWS_ALLOW_HTTP="false"))
    assert plain.returncode != 0
    assert "AWS_ALLOW_HTTP=true" in plain.stderr


def test_a_server_that_fails_for_a_moment_is_asked_again(
    local: dict[str, Path], remote: dict[str, str], way: Way, tmp_path: Path
) -> None:
    """Errors of the server and connections that end early; the result is the same."""

    def fail(request: Request, before: int, answer: Answer) -> Answer:
        if before == 0 and request.method == "GET":
            return Answer(503, [], b"slow down")
        if before == 1 and request.range and len(answer.body) > 1:
            answer.cut = len(answer.body) // 2
        return answer

    here = compared(local["pack_target"], local["pack_golden"], tmp_path / "here")
    with way.changing(fail):
        there = compared(
            remote["pack_target"], remote["pack_golden"], tmp_path / "there", env=way.environment()
        )
    assert there == here


def test_one_lost_object_does_not_lose_the_run(remote: dict[str, str], way: Way, tmp_path: Path) -> None:
    """A connection that always ends in the middle is an error of that file, with its name."""
    lost = "Functional.gelu.1.forward.output.0.pt"

    def cut(request: Request, before: int, answer: Answer) -> Answer:
        if request.key.endswith(f"target/step0/rank1/dump_tensor_data/{lost}") and answer.body:
            answer.cut = len(answer.body) // 2
        return answer

    sides = [f"{remote[side]}/step0/rank1" for side in ("target", "golden")]
    with way.changing(cut):
        ran = run("compare", *sides, "-o", tmp_path, env=way.environment(AWS_MAX_ATTEMPTS="2"))
    assert f"{sides[0]}/dump_tensor_data/{lost}: the bucket {BUCKET} could not be read" in ran.stderr
    verdicts = {(row["call"], row["entry"]): row["verdict"] for row in read_csv(tmp_path)}
    assert len(verdicts) == 26
    assert verdicts["Functional.linear.2.forward", "output.0"] == "diverged here"


def test_an_object_that_changes_is_an_error(tmp_path: Path, server: S3Server, way: Way) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    torch.save(torch.zeros(1 << 20), folder / "x.pt")
    server.upload(folder, "changing")

    def change(request: Request, before: int, answer: Answer) -> Answer:
        if request.range and request.range != "bytes=0-262143":
            answer.headers = [
                (name, '"other"' if name.lower() == "etag" else value) for name, value in answer.headers
            ]
        return answer

    with way.changing(change):
        ran = run("stats", f"s3://{BUCKET}/changing/x.pt", env=way.environment())
    assert ran.returncode != 0
    assert f"s3://{BUCKET}/changing/x.pt: changed while it was read" in ran.stderr


def test_hostile_keys(server: S3Server, way: Way, tmp_path: Path) -> None:
    """A backslash is listed and not read; keys that name no file, or hide their name, refuse their folder."""
    folder = write_rank(tmp_path / "dump", chain(1))
    address = server.upload(folder, "strange")
    server.put("strange/a%5Cb", b"x")
    server.put("strange/", b"")
    listed = run("ls", address, env=way.environment())
    assert "linear" in listed.stdout, listed.stderr

    def hostile(request: Request, before: int, answer: Answer) -> Answer:
        answer.body = answer.body.replace(b"strange/stack.json", b"strange/../../etc/passwd")
        return answer

    with way.changing(hostile):
        ran = run("ls", address, env=way.environment())
    assert ran.returncode != 0
    assert "names no file" in ran.stderr
    server.put("strange/a%07b", b"x")
    ran = run("ls", address, env=way.environment())
    assert ran.returncode != 0
    assert "names no file" in ran.stderr
    assert "\x07" not in ran.stderr
    for path in (f"s3://{BUCKET}/a/../b", f"s3://{BUCKET}//b", "s3://"):
        ran = run("ls", path, env=way.environment())
        assert ran.returncode != 0
        assert path in ran.stderr


def test_nothing_is_written_to_a_bucket(local: dict[str, Path], remote: dict[str, str], way: Way) -> None:
    out = f"s3://{BUCKET}/out"
    for words in (
        ["compare", remote["target"], remote["golden"], "-o", out],
        ["convert", local["golden"] / "step0/rank0/dump_tensor_data", "-o", out, "--to", "npy"],
        ["report", remote["golden"], "-o", f"{out}/report.html"],
        ["overflow", remote["golden"], "-o", out],
    ):
        ran = run(*words, env=way.environment())
        assert ran.returncode != 0
        assert "this machine only" in ran.stderr
    run("compare", remote["target"], remote["golden"], env=way.environment())
    assert {request.method for request in way.requests} <= {"GET", "HEAD"}
    with pytest.raises(OSError, match="this machine only"):
        ulpscope.save(f"{out}/x.npy", torch.ones(1))
