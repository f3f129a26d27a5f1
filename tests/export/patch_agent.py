"""An agent for Harbor that leaves a patch in the work folder, in one of the ways in which agents do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent  # type: ignore[import-not-found]


class PatchAgent(BaseAgent):  # type: ignore[misc]
    """Applies the patch ``patch``; with ``commit`` it commits that and removes the repository."""

    def __init__(self, *given: Any, patch: str, commit: bool = False, **named: Any) -> None:
        super().__init__(*given, **named)
        self._patch, self._commit = Path(patch), commit

    @staticmethod
    def name() -> str:
        return "patch"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: Any) -> None:
        return

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        await environment.upload_file(self._patch, "/tmp/change.diff")
        command = "git apply --whitespace=nowarn /tmp/change.diff && rm /tmp/change.diff"
        if self._commit:
            command += (
                " && git add -A && git -c user.name=a -c user.email=a@b commit -qm done"
                " && rm -rf .git && mkdir -p __pycache__ && touch __pycache__/x.pyc"
            )
        done = await environment.exec(command)
        assert done.return_code == 0, done.stderr or done.stdout
