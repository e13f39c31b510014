"""The fault suite: known faults in known calls, and changes that are none, to see who tells them apart.

    models ──► planting (one call, one fault) ──► capture ──► target ─┐
      └──────► benign (another way to the same numbers) ──► golden ───┴──► what each tool says of the pair

A case says which model, fault, benign change and seed; running it leaves two dumps and the truth.
"""

import os

# On some virtual machines the processor announces AMX and bf16 instructions that the host then refuses:
# oneDNN's code for them dies with SIGILL. This keeps it to plain AVX-512. To be set before torch is imported.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
