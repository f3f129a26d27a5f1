"""A server on loopback that speaks as much of GitHub's API as collecting asks for, with its limits and failures."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

DIFF = """\
diff --git a/src/tides/__init__.py b/src/tides/__init__.py
index 1111111..2222222 100644
--- a/src/tides/__init__.py
+++ b/src/tides/__init__.py
@@ -1,2 +1,2 @@
 def period():
-    return 12
+    return 12.42
diff --git a/tests/test_moon.py b/tests/test_moon.py
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/tests/test_moon.py
@@ -0,0 +1,2 @@
+def test_moon():
+    pass
"""
PYPROJECT = '[project]\nname = "tide-tables"\n'
BASE, HEAD = "b" * 40, "a" * 40


class Forge:
    """What the server knows and counts. ``trouble`` are answers given before any other: (status, headers, body)."""

    def __init__(self) -> None:
        self.pulls: dict[int, dict[str, Any]] = {}
        self.issues: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.diffs: dict[int, str] = {}
        self.facts: dict[str, Any] = {
            "created_at": "2025-02-01T00:00:00Z", "pushed_at": "2025-10-01T00:00:00Z", "stargazers_count": 21,
            "default_branch": "main", "html_url": "https://github.com/harbour/tides",
        }  # fmt: skip
        self.contributors = 3
        self.languages = {"Python": 900, "C": 100}
        self.per_page = 2
        self.trouble: list[tuple[int, dict[str, str], str]] = []
        self.asked: list[tuple[str, int]] = []
        self.tokens: set[str] = set()
        self.url = ""
        self.die_after: int | None = None
        self.lacks: set[str] = set()  # parts of paths that this server does not know

    def add(self, number: int, title: str = "The moon counts", body: str = "", *, merged: bool = True,
            comments: tuple[str, ...] = (), diff: str = DIFF) -> None:  # fmt: skip
        self.pulls[number] = {
            "number": number, "title": title, "body": body, "html_url": f"https://github.com/harbour/tides/pull/{number}",
            "created_at": "2024-01-01T00:00:00Z", "merged_at": "2024-01-02T03:04:05Z" if merged else None,
            "user": {"login": "ada"}, "base": {"ref": "main", "sha": "c" * 40}, "head": {"ref": "x", "sha": HEAD},
            "merge_commit_sha": f"{number:040x}",
        }  # fmt: skip
        self.comments[number] = [{"body": text, "user": {"login": "bob"}} for text in comments]
        self.comments[number].append({"body": "https://ci.test.org/x", "user": {"login": "ci[bot]"}})
        self.diffs[number] = diff

    def answer(self, path: str, query: dict[str, list[str]], accept: str) -> tuple[int, Any]:
        parts = path.strip("/").split("/")[3:]
        match parts:
            case []:
                return 200, self.facts
            case ["pulls"]:
                return 200, [self.pulls[number] for number in sorted(self.pulls, reverse=True)]
            case ["pulls", number] if int(number) in self.pulls:
                return 200, self.diffs[int(number)] if accept.endswith("diff") else self.pulls[int(number)]
            case ["issues", number, "comments"]:
                return 200, self.comments[int(number)]
            case ["issues", number] if int(number) in self.issues:
                return 200, self.issues[int(number)]
            case ["languages"]:
                return 200, self.languages
            case ["contributors"]:
                return 200, [{"login": f"p{number}"} for number in range(self.contributors)]
            case ["compare", _]:
                return 200, {"merge_base_commit": {"sha": BASE}}
            case ["commits", "main"]:
                return 200, {"sha": HEAD, "commit": {"committer": {"date": "2025-10-01T00:00:00Z"}}}
            case ["git", "trees", _]:
                names = ("pyproject.toml", "src/tides/__init__.py", "tests/test_period.py")
                return 200, {"tree": [{"path": name, "type": "blob", "size": 9} for name in names]}
            case ["contents", *name]:
                texts = {
                    "pyproject.toml": PYPROJECT,
                    "src/tides/__init__.py": "def period():\n    return 12\n",
                }
                text = texts.get("/".join(name))
                return (200, text) if text else (404, {"message": "Not Found"})
        return 404, {"message": "Not Found"}

    def graphql(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        def node(pull: dict[str, Any]) -> dict[str, Any]:
            closes = [number for number in self.issues if f"#{number}" in pull["body"]]
            return {
                "number": pull["number"], "title": pull["title"], "body": pull["body"], "url": pull["html_url"],
                "mergedAt": pull["merged_at"], "createdAt": pull["created_at"], "baseRefName": "main",
                "baseRefOid": "c" * 40, "headRefOid": HEAD, "author": {"login": "ada"},
                "merged": bool(pull["merged_at"]),
                "mergeCommit": {"oid": pull["merge_commit_sha"]},
                "comments": {"nodes": [
                    {"body": each["body"], "author": each["user"]} for each in self.comments[pull["number"]]
                ]},
                "closingIssuesReferences": {"nodes": [
                    {**self.issues[number], "url": self.issues[number]["html_url"],
                     "repository": {"nameWithOwner": "harbour/tides"}} for number in closes
                ]},
            }  # fmt: skip

        if "viewer" in query:
            return {"viewer": {"login": "ada"}}
        if "number" in variables:
            pull = self.pulls.get(variables["number"])
            return {"repository": {"pullRequest": node(pull) if pull else None}}
        merged = [
            self.pulls[number]
            for number in sorted(self.pulls, reverse=True)
            if self.pulls[number]["merged_at"]
        ]
        start = int(variables.get("after") or 0)
        page = merged[start : start + self.per_page]
        more = {"hasNextPage": start + self.per_page < len(merged), "endCursor": str(start + self.per_page)}
        return {"repository": {"pullRequests": {"pageInfo": more, "nodes": [node(pull) for pull in page]}}}


@contextmanager
def serve(forge: Forge) -> Iterator[Forge]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._handle(None)

        def do_POST(self) -> None:
            self._handle(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _handle(self, body: Any) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            forge.tokens.add(self.headers.get("Authorization", ""))
            if forge.die_after is not None and len(forge.asked) >= forge.die_after:
                self.connection.close()
                return None
            if any(part in parts.path for part in forge.lacks):
                return self._send(404, b'{"message": "Not Found"}', {})
            if forge.trouble:
                status, headers, text = forge.trouble.pop(0)
                return self._send(status, text.encode(), headers)
            if body is not None:
                return self._send(
                    200, json.dumps({"data": forge.graphql(body["query"], body["variables"])}).encode(), {}
                )
            accept = self.headers.get("Accept", "")
            status, found = forge.answer(parts.path, query, accept)
            headers = {}
            if isinstance(found, list):
                page, size = (
                    int(query.get("page", ["1"])[0]),
                    min(forge.per_page, int(query.get("per_page", ["30"])[0])),
                )
                last = max(1, -(-len(found) // size))
                base = f"{forge.url}{parts.path}?" + "".join(
                    f"{name}={value[0]}&" for name, value in query.items() if name != "page"
                )
                if page < last:
                    headers["Link"] = f'<{base}page={page + 1}>; rel="next", <{base}page={last}>; rel="last"'
                found = found[(page - 1) * size : page * size]
            data = found.encode() if isinstance(found, str) else json.dumps(found).encode()
            etag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
            if self.headers.get("If-None-Match") == etag:
                return self._send(304, b"", headers)
            return self._send(status, data, {**headers, "ETag": etag})

        def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
            forge.asked.append((self.path, status))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value.replace("NOW+1", str(int(time.time()) + 1)))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        forge.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield forge
        finally:
            server.shutdown()
