"""Tasks for Harbor (0.25, task format 1.4), scored there by the same code as here, and such tasks read back.

`tasks` writes them, `manifest` is their text, `carrier` makes the image with the scorer; `verifier` and `rooms` run
inside Harbor's verifier; `reading` makes instances of tasks again.
"""
