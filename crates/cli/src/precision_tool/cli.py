"""``python3 precision_tool/cli.py [COMMAND [ARGUMENT]]``: starts ulpscope with the settings of this folder.

Runs on Python 3.7: the Python of a training script need not be the one that has the package ulpscope.
"""

import os
import shutil
import subprocess
import sys


def main(arguments):
    """Runs ulpscope; returns its exit code."""
    config = os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.py")
    program = shutil.which("ulpscope")
    command = [program] if program else [sys.executable, "-m", "ulpscope"]
    if arguments:
        command += ["precision-tool", "--config", config] + arguments
    else:
        command += ["shell", "--config", config]
    try:
        return subprocess.call(command)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        sys.stderr.write("error: cannot start ulpscope: %s\n" % error)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
