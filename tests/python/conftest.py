"""What must be so before any test imports torch."""

import os

# On some virtual machines the processor announces AMX and bf16 instructions that the host then refuses:
# oneDNN's code for them dies with SIGILL. This keeps it to plain AVX-512.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
