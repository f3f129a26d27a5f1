"""Doc2Repo: from a repository to what an agent rebuilds it from, and what it is measured with.

hiding          every mention of the name under the masked one: code, prose, URLs, metadata, paths
material        reference package and suite out of a repository's tree, both masked
interface       the public interface, read from signatures and docstrings (griffe; nothing is imported)
specification   purpose, usage and interface as one text; rewriting by a model
trimming        tests that cannot pass on the reference go
hidden          what tests ask for that the specification does not tell
"""
