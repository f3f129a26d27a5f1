"""What the proxy asks of an index by itself: when a file was uploaded that somebody names by its address."""

import asyncio
import base64
import http.client
import ssl
from urllib.parse import urlsplit

from beyondswe.gateway import index
from beyondswe.gateway.egress_rules import Refused

TIMEOUT = 30.0
MOST = 96 << 20  # bytes of an answer
PROJECTS_KEPT = 2_000


class Lookup:
    """Upload times by index and project, learnt from what passes and asked for where nothing has passed."""

    def __init__(self, places, *, trust, index):
        self._places, self._index = places, index
        self._tls = ssl.create_default_context(cafile=trust)
        self._times = {}  # project -> {file name: upload time}
        self._documents = {}  # (host, package) -> npm's document
        self._indexes = {}  # host of files -> address of the simple index that leads there
        self._waiting = {}

    def file_hosts(self, attempt):
        """Hosts that index pages have pointed to, those that this attempt alone has seen among them."""
        return self._indexes.keys() | attempt.file_hosts

    def learn(self, url, project, body, content_type, *, attempt=None):
        """Keep what a project's page says, which ``attempt`` was given.

        Anybody can serve a page of this shape. Only the configured index, and one that the user's --allow-host
        names, say where files of other hosts are dated; for others this is a file's host all the same, in the
        attempt that saw it.
        """
        if len(self._times) > PROJECTS_KEPT:
            self._times.clear()
        simple = url.partition("?")[0].rstrip("/").rpartition("/")[0] + "/"
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        trusted = simple == self._index or (
            attempt is not None and attempt.policy.allows(parts.hostname, port)
        )
        for host in index.file_hosts_of(body, url):
            if simple == self._index:
                self._indexes[host] = simple
            elif trusted or host == parts.hostname:
                self._indexes.setdefault(host, simple)
            else:
                attempt.file_hosts.add(host)
        self._times[simple, project] = index.upload_times(body, content_type)

    async def uploaded(self, request, asked, attempt):
        """When a file was uploaded, or '' where its index does not list it."""
        if asked.kind is index.Kind.NPM_FILE:
            document = await self.npm(request.scheme, request.host, request.port, asked.project)
            return index.npm_times(document).get(index.npm_file_version(asked.project, asked.filename), "")
        simple = self._indexes.get(request.host, self._index)
        key = simple, asked.project
        moment = self._times.get(key, {}).get(asked.filename)
        if not moment:  # not seen yet, or newer than what was seen
            url = f"{simple}{asked.project}/"
            body, content_type = await self._once(url, index.SIMPLE_JSON)
            if body:
                self.learn(url, asked.project, body, content_type, attempt=attempt)
            moment = self._times.get(key, {}).get(asked.filename)
        return moment or ""

    async def npm(self, scheme, host, port, project):
        """A package's document as its registry gives it."""
        default = {"http": 80, "https": 443}[scheme]
        url = f"{scheme}://{host}{'' if port == default else f':{port}'}{index.npm_path(project)}"
        if url not in self._documents:
            if len(self._documents) > 200:
                self._documents.clear()
            body, _ = await self._once(url, "application/json")
            if not body:
                raise Refused("index-no-times", "the registry has no document of this package")
            self._documents[url] = body
        return self._documents[url]

    async def _once(self, url, accept):
        """One answer for all who ask for the same address at the same time."""
        if url not in self._waiting:
            task = asyncio.ensure_future(self._get(url, accept))
            self._waiting[url] = task
            task.add_done_callback(lambda _: self._waiting.pop(url, None))
        return await asyncio.shield(self._waiting[url])

    async def _get(self, url, accept):
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        via = self._places.via(parts.scheme, parts.hostname, port)
        try:
            target = via[1] if via else (await self._places.addresses(parts.hostname, port))[0]
            return await asyncio.get_running_loop().run_in_executor(
                None, self._fetch, parts, port, target, via, accept
            )
        except (OSError, http.client.HTTPException) as error:
            raise Refused(
                "index-no-times", f"the index at {parts.hostname} cannot be asked: {error}"
            ) from None

    def _fetch(self, parts, port, target, via, accept):
        secure = parts.scheme == "https"
        connection = http.client.HTTPConnection(*target, timeout=TIMEOUT)
        headers = {
            "Accept": accept,
            "Accept-Encoding": "identity",
            "Host": parts.netloc,
            "User-Agent": "beyondswe",
        }
        where = parts._replace(scheme="", netloc="").geturl() or "/"
        name = self._places.login(via[1]) if via else ""
        login = {"Proxy-Authorization": basic(name)} if name else {}
        if via and secure:
            connection.set_tunnel(parts.hostname, port, headers=login)
        elif via:
            where = parts.geturl()
            headers |= login
        try:
            connection.connect()
            if secure:
                connection.sock = self._tls.wrap_socket(connection.sock, server_hostname=parts.hostname)
            connection.request("GET", where, headers=headers)
            answer = connection.getresponse()
            body = answer.read(MOST + 1)
            if answer.status != 200 or len(body) > MOST:
                return b"", ""
            return body, answer.headers.get("Content-Type", "")
        except TimeoutError as error:
            raise OSError(f"no answer within {TIMEOUT:g} s") from error
        finally:
            connection.close()


def basic(login):
    return "Basic " + base64.b64encode(login.encode()).decode()
