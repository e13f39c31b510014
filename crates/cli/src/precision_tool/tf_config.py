"""Switches dump, overflow detection, fusion and profiling of an NPU training on, for the scripts of TensorFlow 1 and 2.

    import precision_tool.tf_config as npu_tf_config
    sess = tf.Session(config=npu_tf_config.session_dump_config(config))            session
    NPURunConfig(dump_config=npu_tf_config.estimator_dump_config)                  Estimator

``action`` is one of dump, overflow, fusion_off, fusion_switch and prof, or several joined with ``|``. Without it, what
``cli.py npu_dump`` or ``cli.py npu_overflow`` has set in the environment counts; without that, nothing is switched on.

The import itself seeds the generators of random, NumPy and TensorFlow: see ``seed_everything``.
Runs on Python 3.7 with TensorFlow 1.15.
"""

import json
import os
import random
import time

from . import config as cfg

FLAG_DUMP = "PRECISION_TOOL_DUMP"
FLAG_OVERFLOW = "PRECISION_TOOL_OVERFLOW"
ACTIONS = ("dump", "overflow", "fusion_off", "fusion_switch", "prof")

_HERE = os.path.dirname(os.path.abspath(__file__))


def _folder(*parts):
    path = os.path.join(cfg.DATA_ROOT_DIR, *parts)
    os.makedirs(path, exist_ok=True)
    return path


def _words(action):
    """The actions that are asked for, by the argument or else by the environment."""
    if action is None:
        flags = (("dump", FLAG_DUMP), ("overflow", FLAG_OVERFLOW))
        return {word for word, flag in flags if os.environ.get(flag, "").lower() == "true"}
    words = {word.strip() for word in str(action).split("|") if word.strip()}
    unknown = sorted(words - set(ACTIONS))
    if unknown:
        raise ValueError("unknown action %r; expected one of %s, joined with |" % (unknown[0], ", ".join(ACTIONS)))
    if {"dump", "overflow"} <= words:
        raise ValueError("dump and overflow cannot be switched on together: run the script once for each")
    return words


def _fusion_file(words):
    """The fusion switch file that an action asks for, checked before the training starts."""
    if "fusion_off" in words:
        path = os.path.join(_HERE, "fusion_off.cfg")
    elif "fusion_switch" in words:
        path = cfg.FUSION_SWITCH_FILE
    else:
        return None
    with open(path) as file:
        content = json.load(file)
    if not isinstance(content, dict) or not isinstance(content.get("Switch"), dict):
        raise ValueError("%s: expected an object with the key Switch" % path)
    return path


def _graph_environment():
    os.environ["DUMP_GE_GRAPH"] = str(cfg.DUMP_GE_GRAPH_VALUE)
    os.environ["DUMP_GRAPH_LEVEL"] = str(cfg.DUMP_GRAPH_LEVEL_VALUE)
    os.environ["DUMP_GRAPH_PATH"] = _folder("graph", "all")
    os.environ["NPU_DUMP_GRAPH"] = "true"


def _settings(action):
    """The options of the NPU optimizer that the actions need."""
    words = _words(action)
    if not words:
        return {}
    settings = {"debug_dir": _folder("temp", "debug")}
    if "overflow" in words:
        settings.update(
            enable_dump_debug=True,
            dump_debug_mode="all",
            dump_path=_folder("dump", "overflow"),
            op_debug_level=cfg.OP_DEBUG_LEVEL,
        )
    if "dump" in words:
        _graph_environment()
        settings.update(
            enable_dump=True,
            dump_mode="all",
            dump_path=_folder("dump", "npu"),
            dump_step=cfg.TF_DUMP_STEP,
            op_debug_level=cfg.OP_DEBUG_LEVEL,
        )
    fusion = _fusion_file(words)
    if fusion:
        settings["fusion_switch_file"] = fusion
    if "prof" in words:
        options = {"output": _folder("prof"), "training_trace": "on", "task_trace": "on", "aicpu": "on"}
        settings.update(profiling_mode=True, profiling_options=json.dumps(options))
    return settings


def _tensorflow_1():
    """TensorFlow with the names of version 1."""
    import tensorflow as tf

    return tf.compat.v1 if hasattr(tf, "compat") and hasattr(tf.compat, "v1") else tf


def seed_everything(seed=None):
    """Seeds every generator, so that the CPU and the NPU script draw the same numbers. Runs at the import."""
    seed = cfg.DUMP_SEED if seed is None else seed
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        pass
    else:
        numpy.random.seed(seed)
    try:
        tf = _tensorflow_1()
    except ImportError:
        return
    tf.set_random_seed(seed)
    # The seed of the graph as well: a script of version 2 may leave eager execution after this import.
    tf.get_default_graph().seed = seed
    import tensorflow

    if not tensorflow.__version__.startswith("1."):
        # There, deterministic operators are an error in any graph that the script forgot to seed.
        return
    os.environ["TF_DETERMINISTIC_OPS"] = "1"
    try:
        from tfdeterminism import patch
    except ImportError:
        return
    try:
        patch()
    except TypeError:
        # Releases of TensorFlow that need no patch refuse it.
        pass


def update_custom_op(custom_op, action=None):
    """Adds the options of the actions to the custom op ``NpuOptimizer`` of a session; returns it."""
    for name, value in _settings(action).items():
        parameter = custom_op.parameter_map[name]
        if isinstance(value, bool):
            parameter.b = value
        elif isinstance(value, int):
            parameter.i = value
        else:
            parameter.s = value.encode("utf-8")
    return custom_op


def session_dump_config(session_config=None, action=None):
    """The configuration of a session with the options of the actions; everything else in it is kept."""
    tf = _tensorflow_1()
    if session_config is None:
        session_config = tf.ConfigProto()
    if not _words(action):
        return session_config
    from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

    rewrite = session_config.graph_options.rewrite_options
    # Remapping fuses operators, whose tensors would not be dumped.
    rewrite.remapping = RewriterConfig.OFF
    for custom_op in rewrite.custom_optimizers:
        if custom_op.name == "NpuOptimizer":
            break
    else:
        custom_op = rewrite.custom_optimizers.add()
        custom_op.name = "NpuOptimizer"
    update_custom_op(custom_op, action)
    return session_config


try:
    from npu_bridge.estimator.npu.npu_config import DumpConfig as _DumpConfig
except ImportError:

    class _DumpConfig(object):
        """The fields of npu_bridge's DumpConfig, where npu_bridge is not installed."""

        def __init__(
            self,
            enable_dump=False,
            dump_path=None,
            dump_step=None,
            dump_mode="output",
            enable_dump_debug=False,
            dump_debug_mode="all",
        ):
            self._enable_dump = self.enable_dump = enable_dump
            self._dump_path = self.dump_path = dump_path
            self._dump_step = self.dump_step = dump_step
            self._dump_mode = self.dump_mode = dump_mode
            self._enable_dump_debug = self.enable_dump_debug = enable_dump_debug
            self._dump_debug_mode = self.dump_debug_mode = dump_debug_mode


class _EstimatorDumpConfig(_DumpConfig):
    """A dump configuration that is also a function: the guide uses the bare name, newer scripts call it."""

    def __init__(self, action=None):
        settings = _settings(action)
        names = ("enable_dump", "dump_path", "dump_step", "dump_mode", "enable_dump_debug", "dump_debug_mode")
        super(_EstimatorDumpConfig, self).__init__(**{name: settings[name] for name in names if name in settings})

    def __call__(self, action=None):
        return _EstimatorDumpConfig(action)


def npu_device_dump_config(npu_device, action=None):
    """Sets the options of the actions for TensorFlow 2 (``import npu_device``); returns the module."""
    options = npu_device.global_options()
    for name, value in _settings(action).items():
        if name in ("enable_dump", "dump_path", "dump_step", "dump_mode", "enable_dump_debug", "dump_debug_mode"):
            setattr(options.dump_config, name, value)
        elif name == "profiling_mode":
            options.profiling_config.enable_profiling = value
        elif name == "profiling_options":
            options.profiling_config.profiling_options = value
        else:
            setattr(options, name, value)
    return npu_device


def _debug_folder():
    """A new folder for each session: TensorFlow refuses one that holds an earlier run."""
    return _folder("tf", "tf_debug", "session_%d_%d" % (time.time_ns(), os.getpid()))


def sess_dump(sess):
    """A session whose runs write every tensor (TensorFlow on a CPU or GPU)."""
    from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

    return DumpingDebugWrapperSession(sess, _debug_folder())


def estimator_dump():
    """A training hook that writes every tensor (TensorFlow on a CPU or GPU)."""
    from tensorflow.python.debug.wrappers.hooks import DumpingDebugHook

    return DumpingDebugHook(_debug_folder())


def _keras_callback():
    try:
        import tensorflow as tf
    except ImportError:
        return object
    return tf.keras.callbacks.Callback


class NpuPrintLossScaleCallBack(_keras_callback()):
    """A Keras callback that prints the loss scale at the beginning of each batch."""

    def __init__(self, optimizer, sess=None):
        super(NpuPrintLossScaleCallBack, self).__init__()
        self._optimizer = optimizer
        self._sess = sess

    def on_train_batch_begin(self, batch, logs=None):
        """Prints the loss scale."""
        scale = getattr(self._optimizer, "loss_scale", None)
        if scale is None:
            scale = self._optimizer.get_loss_scale()
        if self._sess is not None:
            scale = self._sess.run(scale)
        elif callable(scale):
            scale = scale()
        if hasattr(scale, "numpy"):
            scale = scale.numpy()
        print(">>> Current Loss Scale >>> ", scale)


estimator_dump_config = _EstimatorDumpConfig()

seed_everything()
