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

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """As ``tf.Session.run``."""
        for key, value in (feed_dict or {}).items():
            numpy.save(feed_file(getattr(key, "name", str(key))), numpy.asarray(value), allow_pickle=False)
        result = super(PrecisionTfSession, self).run(fetches, feed_dict, options, run_metadata)
        if feed_dict:
            self._save()
        return result

    def _save(self):
        with self.graph.as_default():
            if self._precision_saver is None:
                if not _TF.global_variables():
                    return
                self._precision_saver = _TF.train.Saver(max_to_keep=1)
            # The saver runs the session itself, with a feed of its own.
            plain = _Plain(self)
            self._precision_saver.save(plain, os.path.join(checkpoint_folder(), "ckpt"))


class _Plain(object):
    """The session without what this file adds, for the saver."""

    def __init__(self, session):
        self._session = session
        self.graph = session.graph

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """As ``tf.Session.run``."""
        return super(PrecisionTfSession, self._session).run(fetches, feed_dict, options, run_metadata)
