"""Operators that are wrong and networks that are healthy: what a check without a reference must tell apart.

They import nothing but torch, so that they run in the environment of any tool.
"""
