"""Lets scripts with LocalCLIDebugHook or LocalCLIDebugWrapperSession run with nobody at the tfdbg prompt.

Put in front of the path of a training process as ``sitecustomize``. The two classes write what they would have shown;
when the process ends, the tensors of the first step become npy files. Runs on Python 3.7 with TensorFlow 1.15.
"""

import atexit
import importlib
import importlib.abc
import importlib.util
import os
import sys
import time

_DEBUG = os.environ.get("ULPSCOPE_TF_DEBUG_DIR")
_DUMP = os.environ.get("ULPSCOPE_TF_DUMP_DIR")
_WRAPPER = "tensorflow.python.debug.wrappers.local_cli_wrapper"
_HOOKS = "tensorflow.python.debug.wrappers.hooks"
# Runs that only initialise come before the first step.
_MOST_RUNS = 10
# The folders that this process has made, one for each session.
_OWN = []


def _own_folder():
    """A new folder of this session: TensorFlow refuses one that holds an earlier run."""
    folder = os.path.join(_DEBUG, "session_%d_%d" % (time.time_ns(), os.getpid()))
    os.mkdir(folder)
    _OWN.append(folder)
    return folder


class _Patching(importlib.abc.MetaPathFinder):
    """Finds the two modules as ever, and patches them once they have run."""

    def __init__(self):
        self._is_busy = False

    def find_spec(self, fullname, path, target=None):
        if fullname not in (_WRAPPER, _HOOKS) or self._is_busy:
            return None
        self._is_busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_busy = False
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                (_patch_wrapper if fullname == _WRAPPER else _patch_hooks)(module)

            spec.loader.exec_module = exec_module
        return spec


def _patch_wrapper(module):
    from tensorflow.python.debug.wrappers import dumping_wrapper, framework

    class LocalCLIDebugWrapperSession(dumping_wrapper.DumpingDebugWrapperSession):
        """Writes the tensors of the runs up to the first that fetches or feeds a tensor."""

        def __init__(self, sess, dump_root=None, ui_type=None, thread_name_filter=None, config_file_path=None):
            self._runs_left = _MOST_RUNS
            super(LocalCLIDebugWrapperSession, self).__init__(
                sess, _own_folder(), thread_name_filter=thread_name_filter, pass_through_operrors=True
            )

        def add_tensor_filter(self, filter_name, tensor_filter):
            """Nobody is there to use a filter."""

        def on_run_start(self, request):
            if self._runs_left <= 0:
                return framework.OnRunStartResponse(framework.OnRunStartAction.NON_DEBUG_RUN, [])
            is_step = bool(request.feed_dict) or _has_tensor(request.fetches)
            self._runs_left = 0 if is_step else self._runs_left - 1
            return super(LocalCLIDebugWrapperSession, self).on_run_start(request)

    module.LocalCLIDebugWrapperSession = LocalCLIDebugWrapperSession


def _has_tensor(fetches):
    if isinstance(fetches, dict):
        return any(_has_tensor(value) for value in fetches.values())
    if isinstance(fetches, (list, tuple)):
        return any(_has_tensor(value) for value in fetches)
    return hasattr(fetches, "dtype") or (isinstance(fetches, str) and ":" in fetches)


def _patch_hooks(module):
    class LocalCLIDebugHook(module.DumpingDebugHook):
        """Writes the tensors of the first step."""

        def __init__(self, ui_type=None, dump_root=None, thread_name_filter=None, config_file_path=None):
            self._is_done = False
            super(LocalCLIDebugHook, self).__init__(_own_folder(), thread_name_filter=thread_name_filter)

        def add_tensor_filter(self, filter_name, tensor_filter):
            """Nobody is there to use a filter."""

        def before_run(self, run_context):
            if self._is_done:
                return None
            self._is_done = True
            return super(LocalCLIDebugHook, self).before_run(run_context)

        def after_run(self, run_context, run_values):
            """Has nothing to show."""

    module.LocalCLIDebugHook = LocalCLIDebugHook


def _write_npy():
    """The tensors of the run of this process that has most of them, as name.index.timestamp.npy."""
    if "tensorflow" not in sys.modules or not _OWN:
        return
    import numpy
    from tensorflow.python.debug.lib import debug_data

    best = None
    runs = [os.path.join(own, name) for own in _OWN for name in sorted(os.listdir(own)) if name.startswith("run_")]
    for folder in runs:
        try:
            run = debug_data.DebugDumpDir(folder, validate=False)
        except (ValueError, IOError) as error:
            sys.stderr.write("ulpscope: %s: %s\n" % (folder, error))
            continue
        if best is None or run.size > best.size:
            best = run
    if best is None:
        return
    for datum in best.dumped_tensor_data:
        value = datum.get_tensor()
        name = "%s.%d.%d.npy" % (datum.node_name.replace("/", "_"), datum.output_slot, datum.timestamp)
        # Handles of resources and texts are no numbers.
        if isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
            numpy.save(os.path.join(_DUMP, name), value, allow_pickle=False)


def _continue_with_the_users():
    """Runs the sitecustomize that this one stands in front of."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = ours


if _DEBUG and _DUMP:
    sys.meta_path.insert(0, _Patching())
    atexit.register(_write_npy)
_continue_with_the_users()
