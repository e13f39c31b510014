"""A session that leaves what ``train`` starts from: its feeds, and a checkpoint after each run.

    from precision_tool.tf_session import PrecisionTfSession
    sess = PrecisionTfSession(config=config)

Runs on Python 3.7 with TensorFlow 1.15.
"""

import os

import numpy

from . import tf_config

_TF = tf_config._tensorflow_1()


def checkpoint_folder():
    """Where checkpoints are."""
    return tf_config._folder("tf", "checkpoints")


def feed_file(name):
    """The file of a feed: ``:`` and ``/`` in the name of a tensor are ``_``."""
    flat = name.replace(":", "_").replace("/", "_")
    return os.path.join(tf_config._folder("tf", "checkpoints", "input"), flat + ".npy")


class PrecisionTfSession(_TF.Session):
    """``tf.Session`` whose runs with a feed save it, and the variables afterwards."""

    def __init__(self, target="", graph=None, config=None):
        super(PrecisionTfSession, self).__init__(target=target, graph=graph, config=config)
        self._precision_saver = None
        self._is_saving = False

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """As ``tf.Session.run``."""
        # The saver runs this session itself, with a feed of its own.
        is_step = bool(feed_dict) and not self._is_saving
        if is_step:
            for key, value in feed_dict.items():
                numpy.save(feed_file(getattr(key, "name", str(key))), numpy.asarray(value), allow_pickle=False)
        result = super(PrecisionTfSession, self).run(fetches, feed_dict, options, run_metadata)
        if is_step:
            self._is_saving = True
            try:
                self._save()
            finally:
                self._is_saving = False
        return result

    def _save(self):
        with self.graph.as_default():
            if self._precision_saver is None:
                if not _TF.global_variables():
                    return
                self._precision_saver = _TF.train.Saver(max_to_keep=1)
            self._precision_saver.save(self, os.path.join(checkpoint_folder(), "ckpt"))
