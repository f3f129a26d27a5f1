"""A model's opinion on a candidate: does what it links to matter, does its statement keep the solution to itself.

Any endpoint that speaks OpenAI's chat completions will do. The verdict is kept with its reason and the model's name;
a model that gives none leaves the row waiting for people.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from beyondswe.construction.collect.candidates import ACCEPTED, REJECTED, Row
from beyondswe.errors import EngineError, UsageError

_TRIES = 3
_LONGEST = 24_000  # characters of one part of the question

_TASK = """\
You review candidates for a benchmark in which programmers solve an issue without seeing its solution.
You get a problem statement, the outside links in it, and the solution as a patch.
Answer with one JSON object and nothing else:
{"relevant": true or false, "leaks": true or false, "reason": "one or two sentences"}
relevant: the statement describes a real problem or feature of the code, well enough to work on, that the patch
solves{about}. leaks: the statement tells how to solve it (code of the patch, names that only the patch brings, where
and what to change), beyond what users would know."""

_ABOUT = {
    "CrossRepo": "; the outside links help in understanding it",
    "DomainFix": "; solving it needs knowledge of the repository's scientific or engineering field",
    "DepMigrate": "; it is about keeping up with a new version of a package that the repository depends on",
}


@dataclass(frozen=True)
class Judge:
    """Which model is asked, and where: ``url`` is the API's base, such as ``https://host/v1``."""

    model: str
    url: str
    key: str = ""

    @classmethod
    def configured(
        cls, model: str | None, url: str | None, options: tuple[str, str] = ("--model", "--model-url")
    ) -> Judge | None:
        """The model that two options name; None where they name none. The key is ``OPENAI_API_KEY``'s."""
        if model is None:
            if url:
                raise UsageError(
                    f"{options[1]} names an endpoint, but no {options[0]} says which model to ask there"
                )
            return None
        base = url or os.environ.get("OPENAI_BASE_URL", "")
        if not base.startswith(("http://", "https://")):
            raise UsageError(
                f"{options[0]} needs an endpoint: {options[1]}, or OPENAI_BASE_URL (http or https)"
            )
        return cls(model, base.rstrip("/"), os.environ.get("OPENAI_API_KEY", ""))

    def judge(self, row: Row) -> Row:
        """The row with the model's verdict in its review. Accepted where it is relevant, nothing leaks, and our own
        leak check found nothing either; rejected where the model says so; else it keeps waiting. A Doc2Repo row has
        no statement before it is built, and is given back as it is.
        """
        if not row.get("problem_statement"):
            return row
        answer = self.ask(
            _TASK.replace("{about}", _ABOUT.get(str(row.get("task")), "")),
            "\n\n".join(
                [
                    "# Problem statement\n" + str(row.get("problem_statement", ""))[:_LONGEST],
                    "# Outside links\n" + "\n".join(row.get("links") or ["none"]),
                    "# Solution\n" + str(row.get("patch", ""))[:_LONGEST],
                ]
            ),
        )
        verdict = _verdict(answer)
        state = dict(row["review"])
        said: dict[str, Any] = {"model": self.model, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        if verdict is None:
            state["judge"] = {**said, "verdict": None, "reason": f"no verdict in its answer: {answer[:300]}"}
            state["reasons"] = [*state["reasons"], "judge: the model gave no verdict"]
            return {**row, "review": state}
        relevant, leaks, reason = verdict
        good = relevant and not leaks
        state["judge"] = {**said, "verdict": "accept" if good else "reject", "relevant": relevant, "leaks": leaks,
                          "reason": reason}  # fmt: skip
        if not good:
            state["status"] = REJECTED
            state["reasons"] = [
                *state["reasons"],
                f"judge: {'it leaks' if leaks else 'not relevant'}: {reason}",
            ]
        elif not row.get("leaks"):
            state["status"] = ACCEPTED
        return {**row, "review": state}

    def ask(self, task: str, question: str) -> str:
        """The model's answer to one question; `EngineError` if the endpoint does not give one."""
        import httpx

        body = {
            "model": self.model,
            "messages": [{"role": "system", "content": task}, {"role": "user", "content": question}],
            "temperature": 0,
        }
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        problem = ""
        for _ in range(_TRIES):
            try:
                answer = httpx.post(f"{self.url}/chat/completions", json=body, headers=headers, timeout=300)
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if answer.status_code in (401, 403, 404):
                raise UsageError(
                    f"{self.url}: the model endpoint refuses ({answer.status_code}): {answer.text[:200]}"
                )
            if answer.status_code == 200:
                try:
                    return str(answer.json()["choices"][0]["message"]["content"] or "")
                except (ValueError, LookupError, TypeError):
                    problem = f"an answer that is no chat completion: {answer.text[:200]}"
            else:
                problem = f"status {answer.status_code}: {answer.text[:200]}"
        raise EngineError(f"{self.url}: the model did not answer, {_TRIES} times: {problem}")


def _verdict(answer: str) -> tuple[bool, bool, str] | None:
    for match in re.finditer(r"\{[^{}]*\}", answer):
        try:
            said = json.loads(match[0])
        except ValueError:
            continue
        if isinstance(said.get("relevant"), bool) and isinstance(said.get("leaks"), bool):
            return said["relevant"], said["leaks"], str(said.get("reason") or "")
    return None
