"""What an agent is told, from Jinja2 templates: one a family, without or with search, or a file of the user's."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from beyondswe.errors import UsageError
from beyondswe.instances.model import Family, Instance
from beyondswe.resources import resource
from beyondswe.sandbox.types import Network

if TYPE_CHECKING:
    import jinja2

DEFAULT = "default"
SEARCHSWE = "searchswe"
"""The prompts that ask for looking things up: those of runs with search."""


class Prompts:
    """Renders the prompt of an instance.

    Templates see ``problem_statement``, ``workdir``, ``family`` and ``network``, and nothing else: neither
    reference nor tests nor the instance's id (which can name the pull request) can get into a prompt. A
    Doc2Repo specification lies in the work folder, not in the prompt.
    """

    def __init__(self, prompt: str, network: Network) -> None:
        """``prompt`` is ``default``, ``searchswe``, or the path of a template file, used for every family."""
        import jinja2

        self._network = network
        self.name = prompt
        if prompt in (DEFAULT, SEARCHSWE):
            folder = resource("harness", "prompts")
            below = "" if prompt == DEFAULT else f"{SEARCHSWE}/"
            names = {family: f"{below}{family.value.lower()}.md.j2" for family in Family}
            sources = [folder / f"{name.lower()}.md.j2" for name in ("issue", *Family)]
            sources += [folder / name for name in names.values()]
            sources += [folder / SEARCHSWE / "research.md.j2"] if below else []
        else:
            path = Path(prompt)
            if not path.is_file():
                raise UsageError(f"--prompt {prompt}: neither {DEFAULT!r} nor {SEARCHSWE!r} nor a file")
            folder = path.parent
            names, sources = dict.fromkeys(Family, path.name), [path]
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(folder, encoding="utf-8"),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        try:
            self._templates = {family: environment.get_template(name) for family, name in names.items()}
        except (jinja2.TemplateError, OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--prompt {prompt}: the template cannot be read: {error}") from error
        texts = [path.read_bytes() for path in sorted(set(sources))]
        self.sha256 = hashlib.sha256(b"\0".join(texts)).hexdigest()

    def render(self, instance: Instance) -> str:
        """The prompt; `UsageError` if the template asks for something that there is not."""
        import jinja2

        template: jinja2.Template = self._templates[instance.family]
        try:
            return template.render(
                problem_statement=instance.problem_statement,
                workdir=instance.workdir,
                family=instance.family.value,
                network=self._network.value,
            )
        except jinja2.TemplateError as error:
            raise UsageError(f"--prompt {self.name}: {error}") from error
