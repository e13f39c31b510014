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
with npu_tf_config.sess_dump(tf.Session()) as sess:
    sess.run(a)
assert npu_tf_config.estimator_dump() is not None
class Optimizer:
    loss_scale = 1024.0
npu_tf_config.NpuPrintLossScaleCallBack(Optimizer()).on_train_batch_begin(0)
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
    assert any((tmp_path / "precision_data/tf/tf_debug").glob("run_*"))
