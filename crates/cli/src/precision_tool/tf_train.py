"""``train`` of the shell: one step of a training from its checkpoint, with dropout switched off.

    python3 precision_tool/tf_train.py cpu|npu

``ulpscope`` starts it with the environment of ``tf_dump``, ``npu_dump`` or ``npu_overflow``. The checkpoint and the feeds are
those that ``PrecisionTfSession`` has written. Runs on Python 3.7 with TensorFlow 1.15.
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy

from precision_tool import tf_config, tf_session

_DROPOUT = re.compile("dropout.*rate", re.IGNORECASE)


def _without_dropout(meta):
    """Sets every rate of dropout to 0: two devices draw different numbers."""
    from tensorflow.python.framework import tensor_util

    for node in meta.graph_def.node:
        if node.op == "Const" and _DROPOUT.search(node.name):
            value = tensor_util.MakeNdarray(node.attr["value"].tensor)
            node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(numpy.zeros_like(value)))
    return meta


def _feed(tensor):
    """What was fed to a placeholder, or random numbers of its shape."""
    path = tf_session.feed_file(tensor.name)
    if os.path.isfile(path):
        return numpy.load(path, allow_pickle=False)
    shape = [dim or 1 for dim in (tensor.shape.as_list() if tensor.shape.dims is not None else [])]
    sys.stderr.write("%s was not saved: random numbers are fed\n" % tensor.name)
    return numpy.random.RandomState(0).uniform(size=shape).astype(tensor.dtype.as_numpy_dtype)


def main(device):
    """Runs the step."""
    tf = tf_config._tensorflow_1()
    if hasattr(tf, "disable_eager_execution"):
        tf.disable_eager_execution()
    checkpoint = tf.train.latest_checkpoint(tf_session.checkpoint_folder())
    if checkpoint is None:
        sys.exit("%s: no checkpoint" % tf_session.checkpoint_folder())
    from tensorflow.python.framework import meta_graph

    meta = _without_dropout(meta_graph.read_meta_graph_file(checkpoint + ".meta"))
    saver = tf.train.import_meta_graph(meta, clear_devices=True)
    steps = tf.get_collection(tf.GraphKeys.TRAIN_OP)
    if not steps:
        sys.exit("the checkpoint has no training step: its collection train_op is empty")
    if device == "npu":
        config = tf_config.session_dump_config()
    else:
        # Operators that TensorFlow merges or folds would not be dumped.
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Session(config=config) as plain:
        saver.restore(plain, checkpoint)
        session = plain
        if device == "cpu":
            from tensorflow.python import debug as tf_debug

            session = tf_debug.LocalCLIDebugWrapperSession(plain, ui_type="readline")
        graph = plain.graph
        holders = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
        # The saver's own placeholders are no input of the step.
        feeds = {tensor: _feed(tensor) for tensor in holders if not tensor.op.name.startswith("save")}
        session.run(steps, feed_dict=feeds)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("cpu", "npu"):
        sys.exit("usage: tf_train.py cpu|npu")
    main(sys.argv[1])
