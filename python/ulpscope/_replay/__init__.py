"""Replay: the calls of a dump, made again and judged.

    dump ──► dump_calls ──► replay: arguments, execution ──► judged in Rust ──► results, repro

`functions` has the closed table of what may be called, `modules` what the user names besides it.
`collectives` makes those of all ranks together. torch is imported on first use.
"""
