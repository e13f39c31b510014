"""Perturbation: finds fragile and wrong operators of a program without a reference.

    ulpscope.check.perturb(...) ─┐
    PrecisionDebugger, ──────────┼──► PerturbSettings ──► PerturbRun ──► around every selected call:
    task free_benchmark ─────────┘    the call, the same call on changed inputs, a judgement

Its settings are with those of capture, which config.json has too; capture does not import this package.

perturbation.py     what ``perturb`` returns
run.py              start, stop and step; what is installed meanwhile
perturber.py        which calls are perturbed
second_run.py       runs a call again without side effects
free_benchmark.py   msprobe's free benchmark: one change, a threshold per dtype, ``check`` or ``fix``
changes.py          its changes of the inputs, one function for each
thresholds.py       its comparison and thresholds; ``preheat.py`` learns others
backward.py         the backward stage
amplification.py    our own judgement: how much a call amplifies the rounding of its inputs
confirmation.py     what is wrong with a suspect, in float64
significance.py     how many bits of every result can be trusted
findings.py         the results in memory and in files
"""
