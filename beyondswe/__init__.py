"""Benchmark suite and evaluation harness for coding agents beyond single-repository bug fixing."""

__version__ = "0.1.0"
