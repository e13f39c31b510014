# The settings of precision_tool. The analyst reads this file as data: only lines that assign a text or a number count.

# Steps that are dumped, as in '0|5|10'.
TF_DUMP_STEP = '0'

# A file that switches fusion passes on and off.
FUSION_SWITCH_FILE = './precision_tool/fusion_switch.cfg'

# Where atc and msaccucmp are. Not needed here.
CMD_ROOT_PATH = '/usr/local/'

# Where the logs of the device are.
ASCEND_LOG_PATH = '/root/ascend/log/plog/'

# The least severe level that is printed: NOTSET, INFO, WARNING or ERROR.
LOG_LEVEL = "NOTSET"

# All data is below this folder.
DATA_ROOT_DIR = './precision_data'

# How much of a graph is dumped (1 everything, 2 without data), and which stages (3 the last one).
DUMP_GE_GRAPH_VALUE = 2
DUMP_GRAPH_LEVEL_VALUE = 3

# 4 for current releases, 0 for old ones.
OP_DEBUG_LEVEL = 4

# The seed of seed_everything.
DUMP_SEED = 2022
