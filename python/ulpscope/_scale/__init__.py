"""Engines on several machines: they send jobs of ``ulpscope._core`` to workers and bring the answers back.

Nothing here looks into a job or an answer, and nothing of Ray is imported before an engine is opened.
"""
