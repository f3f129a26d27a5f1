"""Starts aider with its cache of tags kept out of the repository: launch.py CACHE_FOLDER ARGUMENT…

aider has no option for it, and what lies in the repository would be part of the patch.
"""

import sys

from aider.main import main
from aider.repomap import RepoMap

RepoMap.TAGS_CACHE_DIR = sys.argv.pop(1)
sys.exit(main())
