"""Decides a bash command: parsed by a shell grammar, its words expanded, each program judged by what it is asked.

Advice to the agent, no wall: what a program does is not known before it runs. The cut history and the proxy hold.
"""
