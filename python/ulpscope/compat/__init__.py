"""Faces of older tools: their names, defaults, messages and errors, over Ulpscope's capture and compare.

    msprobe            scripts and command lines written for mindstudio-probe
    ptdbg_ascend       scripts written for ptdbg_ascend 4.0
    torch_npu_hooks    scripts written for torch_npu.hooks

A face is policy only. It drives the one capture and the one compare. ``ulpscope run --drop-in -- script.py``
makes an unmodified script import the faces in place of the tools.
"""
