"""precision_tool's helpers and tf_dump with real TensorFlow, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from places import TEST_ALL
from precision_tool_commands import run_as_printed

pytestmark = pytest.mark.peer

SESSION = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from tensorflow.python import debug as tf_debug
x = tf.placeholder(tf.float32, [2, 3], name="x")
w = tf.get_variable("net/w", initializer=np.ones((3, 2), np.float32), use_resource=False)
y = tf.nn.relu(tf.matmul(x, w, name="net/mm"), name="net/relu")
sess = tf.Session()
sess = tf_debug.LocalCLIDebugWrapperSession(sess, ui_type="readline")
sess.run(tf.global_variables_initializer())
for step in range(3):
    shown = sess.run(y, feed_dict={x: np.full((2, 3), step + 1, np.float32)})
print("last", shown[0, 0], "arguments", sys.argv[1:])
"""

ESTIMATOR = """
import numpy as np
import tensorflow as tf
from tensorflow.python import debug as tf_debug
def model(features, labels, mode):
    logits = tf.compat.v1.layers.dense(features["x"], 1, name="fc")
    loss = tf.reduce_mean(tf.square(logits - labels), name="loss")
    step = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    train = step.minimize(loss, global_step=tf.compat.v1.train.get_global_step())
    hooks = [tf_debug.LocalCLIDebugHook()]
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, training_hooks=hooks)
def data():
    pairs = ({"x": np.ones((8, 3), np.float32)}, np.zeros((8, 1), np.float32))
    return tf.data.Dataset.from_tensor_slices(pairs).batch(4).repeat()
tf.estimator.Estimator(model, model_dir="model").train(data, steps=3)
"""

HELPERS = """
import json
import tensorflow.compat.v1 as tf
import precision_tool.tf_config as npu_tf_config
given = tf.ConfigProto(allow_soft_placement=True)
made = npu_tf_config.session_dump_config(given, action="dump")
assert made is given and made.allow_soft_placement
(op,) = made.graph_options.rewrite_options.custom_optimizers
print(json.dumps([op.name, op.parameter_map["enable_dump"].b, op.parameter_map["dump_step"].s.decode(),
                  made.graph_options.rewrite_options.remapping]))
again = npu_tf_config.session_dump_config(made, action="dump")
assert len(again.graph_options.rewrite_options.custom_optimizers) == 1
assert npu_tf_config.session_dump_config() == tf.ConfigProto()
tf.disable_eager_execution()
a = tf.random.uniform([2], name="a")
for _ in range(2):
    with npu_tf_config.sess_dump(tf.Session()) as sess:
        sess.run(a)
assert npu_tf_config.estimator_dump() is not None
class Optimizer:
    loss_scale = 1024.0
npu_tf_config.NpuPrintLossScaleCallBack(Optimizer()).on_train_batch_begin(0)
"""

# The guide's reference for scripts: a checkpoint, its graph, and TensorBoard, in a script with the helpers.
CHECKPOINT = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
import precision_tool.tf_config as npu_tf_config
w = tf.get_variable("w", initializer=np.ones((2,), np.float32))
y = tf.reduce_sum(w, name="y")
saver_dir, log_dir = "saved/model", "log"
with tf.Session(config=npu_tf_config.session_dump_config()) as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(y)
    saver = tf.train.Saver()
    saver.save(sess, saver_dir)
    sess.run(tf.assign(w, [5.0, 5.0]))
    saver.restore(sess, saver_dir)
    summary_writer = tf.summary.FileWriter(logdir=log_dir, graph=sess.graph)
    summary_writer.close()
    print(sess.run(y))
"""

# A training whose session leaves what ``train`` starts from.
TRAINING = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from precision_tool.tf_session import PrecisionTfSession
x = tf.placeholder(tf.float32, [2, 3], name="net/x")
w = tf.get_variable("net/w", initializer=np.ones((3, 1), np.float32))
rate = tf.constant(0.9, name="dropout/rate")
y = tf.multiply(tf.matmul(x, w, name="net/mm"), 1 - rate, name="net/kept")
tf.train.GradientDescentOptimizer(0.0).minimize(tf.reduce_sum(tf.square(y), name="net/loss"))
with PrecisionTfSession() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(tf.get_collection(tf.GraphKeys.TRAIN_OP), feed_dict={x: np.full((2, 3), 2, np.float32)})
"""


@pytest.fixture(scope="module")
def interpreter() -> str:
    from tensorflow_environment import environment

    try:
        return str(environment() / "bin" / "python")
    except subprocess.CalledProcessError as error:
        reason = f"TensorFlow cannot be installed: {error.stderr or error}"
        if os.environ.get(TEST_ALL):
            pytest.fail(reason)
        pytest.skip(reason)


def tool(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope", "precision-tool", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_tf_dump_of_a_session_writes_the_first_step(tmp_path: Path, interpreter: str) -> None:
    (tmp_path / "cpu.py").write_text(SESSION)
    (tmp_path / "cpu_train.sh").write_text(f"exec '{interpreter}' cpu.py \"$@\"\n")
    ended = tool(tmp_path, "tf_dump", "sh cpu_train.sh param1 param2")
    assert ended.returncode == 0, ended.stderr
    assert "last 9.0 arguments ['param1', 'param2']" in ended.stdout
    dump = tmp_path / "precision_data/dump/cpu"
    names = {path.name.split(".")[0]: path for path in dump.glob("*.npy")}
    assert {"net_mm", "net_relu"} <= names.keys()
    assert names["net_relu"].name.split(".")[1] == "0"
    # The first step, not the initialisation and not the last one.
    assert np.array_equal(np.load(names["net_relu"]), np.full((2, 2), 3, np.float32))
    shown = tool(tmp_path, "compare", f"{names['net_mm'].name} {names['net_relu'].name}")
    assert shown.returncode == 0, shown.stderr
    assert "AllClose: True" in shown.stdout


def test_a_second_tf_dump_writes_its_own_run(tmp_path: Path, interpreter: str) -> None:
    """And so does a second session of one script."""
    second = SESSION + "again = tf_debug.LocalCLIDebugWrapperSession(tf.Session(), ui_type='readline')\n"
    (tmp_path / "cpu.py").write_text(second)
    (tmp_path / "later.py").write_text(second.replace("step + 1", "step + 2"))
    dump = tmp_path / "precision_data/dump/cpu"
    assert tool(tmp_path, "tf_dump", f"'{interpreter}' cpu.py").returncode == 0
    first = set(dump.glob("net_relu.*"))
    ended = tool(tmp_path, "tf_dump", f"'{interpreter}' later.py")
    assert ended.returncode == 0, ended.stderr
    (relu,) = set(dump.glob("net_relu.*")) - first
    assert np.array_equal(np.load(relu), np.full((2, 2), 6, np.float32))


def test_tf_dump_of_an_estimator(tmp_path: Path, interpreter: str) -> None:
    (tmp_path / "cpu.py").write_text(ESTIMATOR)
    ended = tool(tmp_path, "tf_dump", f"'{interpreter}' cpu.py")
    assert ended.returncode == 0, ended.stderr
    names = {path.name.split(".")[0] for path in (tmp_path / "precision_data/dump/cpu").glob("*.npy")}
    assert {"loss", "fc_BiasAdd"} <= names


def test_the_helpers_of_training_scripts(tmp_path: Path, interpreter: str) -> None:
    assert tool(tmp_path, "init", ".").returncode == 0
    (tmp_path / "train.py").write_text(HELPERS)
    ended = subprocess.run(
        [interpreter, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    options, scale = ended.stdout.splitlines()
    # 2 is OFF.
    assert json.loads(options) == ["NpuOptimizer", True, "0", 2]
    assert scale == ">>> Current Loss Scale >>>  1024.0"
    # A folder for each session: the debugger refuses one with an earlier run.
    assert len(list((tmp_path / "precision_data/tf/tf_debug").glob("*/run_*"))) == 2


def test_tf_dump_as_printed_and_its_folder_elsewhere(tmp_path: Path, interpreter: str) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    assert tool(work, "init", ".").returncode == 0
    (work / "LeNet_cpu.py").write_text(SESSION)
    ended = run_as_printed(work, "tf_dump", "python3 LeNet_cpu.py", python3=interpreter)
    assert ended.returncode == 0, ended.stderr
    # Another machine gets the folder alone.
    (other / "precision_data/dump").mkdir(parents=True)
    (work / "precision_data/dump/cpu").rename(other / "precision_data/dump/cpu")
    shown = subprocess.run(
        [sys.executable, "-m", "ulpscope", "shell", "-c", "pt net_relu"],
        cwd=other,
        capture_output=True,
        text=True,
    )
    assert "Shape: (2, 2)" in shown.stdout


def test_checkpoints_and_tensorboard_with_the_helpers(tmp_path: Path, interpreter: str) -> None:
    assert tool(tmp_path, "init", ".").returncode == 0
    (tmp_path / "train.py").write_text(CHECKPOINT)
    ended = subprocess.run(
        [interpreter, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "2.0"
    assert (tmp_path / "saved/model.meta").stat().st_size > 0
    assert any((tmp_path / "log").glob("events.out.tfevents.*"))


def test_train_runs_a_step_from_the_checkpoint(tmp_path: Path, interpreter: str) -> None:
    assert tool(tmp_path, "init", ".").returncode == 0
    (tmp_path / "train.py").write_text(TRAINING)
    made = subprocess.run(
        [interpreter, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, made.stderr
    checkpoints = tmp_path / "precision_data/tf/checkpoints"
    assert [path.name for path in (checkpoints / "input").iterdir()] == ["net_x_0.npy"]
    ended = run_as_printed(tmp_path, "train", "-d cpu", python3=interpreter)
    assert ended.returncode == 0, ended.stderr
    tensors = {path.name.split(".")[0]: path for path in (tmp_path / "precision_data/dump/cpu").glob("*.npy")}
    # The feed of the training, without dropout.
    assert np.array_equal(np.load(tensors["net_mm"]), np.full((2, 1), 6, np.float32))
    assert np.array_equal(np.load(tensors["net_kept"]), np.full((2, 1), 6, np.float32))
