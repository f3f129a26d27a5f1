"""From histories and releases to candidates: rows of the instance record that have no environment yet.

pulls, history     what commits say about pull requests; a repository's history, read where it lies
split, names       the difference of a pull request, parted into source and tests; what the target is called
links, leaks       what a text points to; what a problem statement gives away
lists, filters     watched packages and fields (data/collect); which candidates stay, and why the others fell out
candidates         the rows, their file, their review
from_git, from_github, from_pypi   the three ways in
judge, review      who says that a statement will do: a model, people
"""
