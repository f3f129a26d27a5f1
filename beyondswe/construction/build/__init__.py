"""From a candidate to its environment: a Dockerfile that rebuilds, an image, and the row with ``image``.

`facts` reads what a repository says, `plan` decides what to try, `workshop` tries it in a container,
`diagnosis` reads what is missing from how that failed, `rules` is the loop, `agent` the same loop led by a
model, `recipe` writes the Dockerfile down and builds it, `builder` goes through the rows.
"""
