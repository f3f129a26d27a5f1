"""Text out of what a server sends: HTML by trafilatura, PDF by pypdf, plain text as it is.

What strangers send is taken apart in a process of its own (`extracted`), within limits on time and memory: a
document can be made so that its reader never comes to an end.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys

from beyondswe.search.types import WebFault

SUFFIXES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".md": "text/markdown",
    ".rst": "text/x-rst",
    ".txt": "text/plain",
    ".pdf": "application/pdf",
}
"""File endings of documents, and what they are."""
_TEXTUAL = re.compile(r"text/|application/(?:[\w.-]+\+)?(?:json|xml|yaml|toml|javascript|x-sh|x-python)$")


def readable(data: bytes, content_type: str, *, name: str) -> tuple[str, str, str]:
    """Title, text and media type. `WebFault` for what is no document; ``name`` is how messages call it."""
    media_type, _, parameters = content_type.lower().partition(";")
    media_type = media_type.strip()
    charset = re.search(r"charset=[\"']?([\w.-]+)", parameters)
    if data.startswith(b"%PDF-") or media_type == "application/pdf":
        return (*_pdf(data, name), "application/pdf")
    if "html" in media_type or (not media_type and re.match(rb"\s*<(?:!doctype|html)", data[:200], re.I)):
        return (*_html(data, charset[1] if charset else None, name), "text/html")
    if _TEXTUAL.match(media_type) or (not media_type and b"\0" not in data[:4096]):
        text = _decode(data, charset[1] if charset else None)
        first = next((line for line in text.splitlines() if line.strip()), "")
        return first.strip(" #=")[:120], text, media_type or "text/plain"
    raise WebFault(f"{name} is {media_type or 'something'} that cannot be read as text")


def _html(data: bytes, charset: str | None, name: str) -> tuple[str, str]:
    import lxml.html
    import trafilatura

    text = _decode(data, charset or _declared(data))
    try:
        tree = lxml.html.document_fromstring(text.encode(), parser=lxml.html.HTMLParser(encoding="utf-8"))
    except (lxml.etree.ParserError, ValueError):
        raise WebFault(f"{name} is an empty page") from None
    title = " ".join((tree.findtext(".//title") or "").split())
    extracted = trafilatura.extract(
        text, output_format="markdown", include_tables=True, include_links=True, favor_recall=True
    )
    if not extracted or len(extracted) < 200:
        # too short to be an article: what stands on the page is the better answer (indices, tables, forms)
        for node in tree.xpath("//script|//style|//noscript|//template"):
            node.drop_tree()
        whole = re.sub(r"\n\s*\n+", "\n\n", re.sub(r"[ \t]+", " ", str(tree.text_content()))).strip()
        extracted = max(extracted or "", whole, key=len)
    if not extracted.strip():
        raise WebFault(f"{name} holds no text (a page that needs a browser, perhaps)")
    return title, extracted


def _pdf(data: bytes, name: str) -> tuple[str, str]:
    import pypdf
    from pypdf.errors import PyPdfError

    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        text = "\n\n".join(page.extract_text() for page in reader.pages).strip()
        title = str((reader.metadata.title if reader.metadata else None) or "")
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise WebFault(f"{name} is a PDF that cannot be read: {error}") from None
    if not text:
        raise WebFault(f"{name} is a PDF without text (scanned pages, perhaps)")
    return title, text


def _declared(data: bytes) -> str | None:
    """The character set that a page's own head names."""
    found = re.search(rb"<meta[^>]+charset=[\"']?([\w.-]+)", data[:2048], re.I)
    return found[1].decode("ascii", "replace") if found else None


def _decode(data: bytes, charset: str | None) -> str:
    try:
        return data.decode(charset or "utf-8", "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


_SECONDS, _MEMORY = 60, 4 << 30


def extracted(data: bytes, content_type: str, *, name: str) -> tuple[str, str, str]:
    """`readable`, in a process of its own."""
    words = [sys.executable, "-m", "beyondswe.search.extract", content_type, name]
    try:
        done = subprocess.run(words, input=data, capture_output=True, timeout=_SECONDS, check=False)
        found = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise WebFault(f"{name} cannot be read: it takes more than {_SECONDS} s") from None
    except ValueError:
        raise WebFault(
            f"{name} cannot be read: it takes more memory than it may, or breaks its reader"
        ) from None
    if "fault" in found:
        raise WebFault(str(found["fault"]))
    return str(found["title"]), str(found["text"]), str(found["media_type"])


def main() -> None:
    """Document on standard input, content type and name as arguments, JSON on standard output."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    try:
        title, text, media_type = readable(sys.stdin.buffer.read(), sys.argv[1], name=sys.argv[2])
        found = {"title": title, "text": text, "media_type": media_type}
    except WebFault as fault:
        found = {"fault": str(fault)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
