"""Stands for SWE-agent, which is on no package registry: its command line, its files, its protocol."""
