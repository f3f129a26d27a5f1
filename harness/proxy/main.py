"""The process of the egress proxy: mitmproxy as a library, a Unix socket for each attempt, orders on standard input.

Runs in the environment that `requirements.lock` describes and takes its decisions from the package that the first
line names. Orders and answers are JSON, one a line; it ends with its standard input, so that no proxy outlives the
run that started it.

    {"package": …, "folder": …, "trust": …, "hosts": {…}, "index": …, "proxies": {…}}    -> {"ready": …, "ca": …}
    {"open": NAME, "socket": PATH, "log": PATH, "policy": {…}}                            -> {"opened": NAME}
    {"close": NAME}                                                                       -> {"closed": NAME}
"""

import asyncio
import importlib.util
import json
import logging
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def borrow(package):
    """Make one package importable without the rest of the environment that it is installed in."""
    folder = Path(package)
    spec = importlib.util.spec_from_file_location(
        folder.name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[folder.name] = module
    spec.loader.exec_module(module)


class Loop(asyncio.SelectorEventLoop):
    """An event loop that connects only to what `places` has vetted: every way out goes through here."""

    places = None

    async def create_connection(self, protocol_factory, host=None, port=None, **options):
        error = None
        for address in await self.places.addresses(host, port):
            try:
                return await super().create_connection(protocol_factory, *address, **options)
            except OSError as failed:
                error = failed
        raise error or OSError(f"{host} has no address")


async def serve(settings):
    from addon import Egress
    from attempts import Attempts, Handler
    from mitmproxy.addons import core, disable_h2c, next_layer, proxyserver, tlsconfig
    from mitmproxy.master import Master
    from mitmproxy.options import Options
    from places import Places

    loop = asyncio.get_running_loop()
    loop.places = Places(settings["hosts"], settings["proxies"])
    master = Master(Options(confdir=settings["folder"], key_size=2048))
    attempts = Attempts(master)
    egress = Egress(attempts, loop.places, trust=settings["trust"], index=settings["index"])
    master.addons.add(
        core.Core(), egress, disable_h2c.DisableH2C(), proxyserver.Proxyserver(), next_layer.NextLayer(),
        tlsconfig.TlsConfig(),
    )  # fmt: skip
    master.options.update(
        server=False,
        connection_strategy="lazy",
        upstream_cert=False,
        rawtcp=False,
        websocket=False,
        http3=False,
        ssl_verify_upstream_trusted_ca=settings["trust"],
        body_size_limit=str(
            64 << 30
        ),  # the addon has limits of its own; this is for what is not known beforehand
    )
    await master.running()
    Handler.master = master
    authority = (Path(settings["folder"]) / "mitmproxy-ca-cert.pem").read_text()
    say({"ready": True, "ca": authority})
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    while line := await reader.readline():
        order = json.loads(line)
        try:
            if "open" in order:
                await attempts.open(order["open"], order["socket"], order["log"], order["policy"])
                say({"opened": order["open"]})
            else:
                await attempts.close(order["close"])
                say({"closed": order["close"]})
        except Exception as error:
            logging.getLogger(__name__).exception("order failed")
            say({"error": f"{type(error).__name__}: {error}"})
    await attempts.close_all()
    await master.done()


def say(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main():
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    # read unbuffered: the next lines are the event loop's
    first = b""
    while not first.endswith(b"\n"):
        byte = sys.stdin.buffer.raw.read(1)
        if not byte:
            return
        first += byte
    settings = json.loads(first)
    borrow(settings["package"])
    sys.path.insert(0, str(HERE))
    try:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(serve(settings))
    finally:
        shutil.rmtree(settings["folder"], ignore_errors=True)  # the key: also where the run was killed


if __name__ == "__main__":
    main()
