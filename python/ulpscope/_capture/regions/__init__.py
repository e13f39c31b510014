"""Regions of a program that run without capture: compiled code, and tracers that inspect a model."""
