"""Readers: redirects checked at every hop, pages and PDFs as text, the host's networks out of reach."""

from __future__ import annotations

import io
import socket
import threading
from contextlib import suppress
from typing import Any

import pytest

from beyondswe.search import readers
from beyondswe.search.readers import Blocked, JinaReader, PlainReader
from beyondswe.search.types import Hop, WebFault
from tests.search.conftest import Answer

PAGE = "<html><title>Notes</title><body><main><h1>Notes</h1><p>Ticks of 15 seconds.</p></main></body></html>"


def _check(url: str) -> str | None:
    return "target" if "github.com/o/target" in url else None


def _read(reader: Any, url: str) -> tuple[Any, list[Hop]]:
    told: list[Hop] = []
    return reader.read(url, _check, told.append), told


def _site(asked: Any) -> Any:
    moved = {"/old": "/notes", "/away": "http://github.com/o/target/pull/1", "/loop": "/loop"}
    if asked.path in moved:
        return Answer(302, headers={"Location": moved[asked.path]})
    if asked.path == "/notes":
        return Answer(body=PAGE)
    if asked.path == "/data.json":
        return Answer(body={"ticks": 15})
    if asked.path == "/paper.pdf":
        return Answer(body=_pdf("Ticks of 15 seconds"), headers={"Content-Type": "application/octet-stream"})
    if asked.path == "/image":
        return Answer(body=b"\x89PNG\0\0", headers={"Content-Type": "image/png"})
    return Answer(404, "<html>gone</html>")


def _pdf(text: str) -> bytes:
    """A one-page PDF, written by hand."""
    stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out = io.BytesIO(b"")
    out.write(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % at for at in offsets))
    out.write(b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start)
    return out.getvalue()


def test_a_page_with_its_title_and_hops(web: Any) -> None:
    web.answer = _site
    page, told = _read(PlainReader(), "http://docs.example/old")
    assert page.title == "Notes" and "Ticks of 15 seconds." in page.text
    assert [(hop.url, hop.status) for hop in told] == [
        ("http://docs.example/old", 302),
        ("http://docs.example/notes", 200),
    ]
    assert page.hops == tuple(told)


def test_a_redirect_into_a_blocked_place_is_not_followed(web: Any) -> None:
    web.answer = _site
    with pytest.raises(Blocked, match="o/target/pull/1"):
        _read(PlainReader(), "http://docs.example/away")
    assert [asked.host for asked in web.asked] == ["docs.example"]


def test_documents_of_other_kinds(web: Any) -> None:
    web.answer = _site
    assert '"ticks": 15' in _read(PlainReader(), "http://docs.example/data.json")[0].text
    assert "Ticks of 15 seconds" in _read(PlainReader(), "http://docs.example/paper.pdf")[0].text
    for path, why in (("image", "image/png"), ("none", "404"), ("loop", "redirects")):
        with pytest.raises(WebFault, match=why):
            _read(PlainReader(), f"http://docs.example/{path}")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:{port}/notes", "http://localhost:{port}/notes", "http://[::1]/x"]
)
def test_the_host_itself_is_out_of_reach(server: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Blocked, match="private-address"):
        _read(PlainReader(), url.format(port=server.url.rsplit(":")[-1]))
    assert server.asked == []


def test_other_schemes_are_no_pages() -> None:
    for url in ("file:///etc/passwd", "ftp://docs.example/x", "docs.example/x"):
        with pytest.raises(WebFault, match="no address of a web page"):
            _read(PlainReader(), url)


def _jina(web: Any, final: str, text: str = "# Notes\n\nTicks.") -> JinaReader:
    def answer(asked: Any) -> Any:
        if asked.method != "POST":
            return _site(asked)
        return Answer(
            body={"code": 200, "status": 20000, "data": {"title": "Notes", "url": final, "content": text}}
        )

    web.answer = answer
    return JinaReader({"JINA_URL": web.url, "JINA_API_KEY": "jina-key"})


def test_jina_is_given_where_redirects_lead(web: Any) -> None:
    reader = _jina(web, "http://docs.example/notes")
    page, _ = _read(reader, "http://docs.example/old")
    assert (page.title, page.text) == ("Notes", "# Notes\n\nTicks.")
    asked = web.asked[-1]
    assert asked.json == {"url": "http://docs.example/notes"}
    assert asked.headers["authorization"] == "Bearer jina-key"


def test_jina_does_not_hide_a_redirect(web: Any) -> None:
    reader = _jina(web, "http://docs.example/notes")
    with pytest.raises(Blocked):
        _read(reader, "http://docs.example/away")
    assert {asked.method for asked in web.asked} == {"GET"}
    reader = _jina(web, "https://github.com/o/target/pull/1")  # a redirect that only a browser follows
    with pytest.raises(Blocked):
        _read(reader, "http://docs.example/notes")


def test_jina_reads_what_cannot_be_reached_from_here(web: Any) -> None:
    reader = _jina(web, "https://only-there.invalid/x")
    page, _ = _read(reader, "https://only-there.invalid/x")
    assert page.hops == (Hop("https://only-there.invalid/x", None, len(page.text)),)


def test_jinas_refusals_are_faults(web: Any) -> None:
    reader = JinaReader({"JINA_URL": web.url})
    web.answer = lambda asked: (
        Answer(422, {"code": 422, "readableMessage": "no such domain"})
        if asked.method == "POST"
        else _site(asked)
    )
    with pytest.raises(WebFault, match="422: no such domain"):
        _read(reader, "http://docs.example/notes")
    reader = _jina(web, "http://docs.example/notes", text=" ")
    with pytest.raises(WebFault, match="no text"):
        _read(reader, "http://docs.example/notes")


def test_a_page_that_trickles_in_is_given_up(web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    web.answer = _site
    monkeypatch.setattr(readers, "_WHOLE", -1.0)
    with pytest.raises(WebFault, match="takes longer"):
        _read(PlainReader(), "http://docs.example/notes")


def test_a_server_that_trickles_its_head_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """One moment holds for all of a page: every byte comes well within the timeout of a read."""
    ended = threading.Event()

    def trickle(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not ended.wait(0.05):
                connection.sendall(b"x")

    monkeypatch.setattr(readers, "_WHOLE", 0.5)
    monkeypatch.setattr(readers, "_public_address", lambda *_: "127.0.0.1")
    monkeypatch.setattr(readers, "_by_proxy", lambda *_: False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=trickle, args=(listening,), daemon=True)
        thread.start()
        try:
            with pytest.raises(WebFault, match=r"takes longer than 0\.5 s"):
                _read(PlainReader(), f"http://slow.example:{listening.getsockname()[1]}/")
        finally:
            ended.set()
            thread.join()
