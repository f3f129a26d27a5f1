"""Time to first byte of model streams through the gateway, beside the same streams straight from the upstream.

50 streams go on all the time, each begun at a moment of its own: a scripted model in a process of its own, a piece
every 20 ms. Direct and through the gateway are measured in turn; shown are milliseconds of each way and what the
gateway adds to the median, also in its memory with a hundred attempts open. As root on Linux the processes go before
other work of the machine: what is measured is the gateway, and not its place in a queue for a core.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from beyondswe.gateway.metering import Budget
from beyondswe.gateway.process import Gateway, GatewaySettings, OpenSession

STREAMS = 50
ROUNDS = 3
SECONDS = 12.0  # of one round of one way
SCENARIO = {
    "default": {
        "steps": [{"do": "say", "text": "word " * 600, "delay": 0.02}],
        "toolless": "steps",
        "usage": {"input": 1000, "output": 600},
    }
}
PROMPT = "Please look at this. " * 1000  # 20 kB, as a turn of an agent has


class Way:
    """Requests on one path: a TCP port, or the Unix socket of an attempt."""

    def __init__(self, port: int = 0, sessions: list[OpenSession] | None = None) -> None:
        self._port, self._sessions = port, sessions or []

    async def first_byte(self, number: int) -> float:
        """Seconds until the first piece of one stream, which is read to its end."""
        token = "none"
        if self._sessions:
            access = self._sessions[number].access
            token = access.token
        body = json.dumps(
            {
                "model": "m",
                "stream": True,
                "messages": [{"role": "user", "content": f"{PROMPT} {random.random()}"}],
            }
        ).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: model\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        begun = time.perf_counter()
        if self._sessions:
            reader, writer = await asyncio.open_unix_connection(str(access.socket))
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(head + body)
        line = await reader.readuntil(b"\r\n")
        assert b" 200 " in line, line
        await reader.readuntil(b"data: ")
        first = time.perf_counter() - begun
        while await reader.read(1 << 16):
            pass
        writer.close()
        return first

    async def measure(self) -> list[float]:
        """First bytes of the streams that were begun within `SECONDS` while all 50 go on."""
        found: list[float] = []
        end = time.monotonic() + SECONDS

        async def stream(number: int) -> None:
            await asyncio.sleep(random.random() * 2)
            warm = False
            while time.monotonic() < end:
                first = await self.first_byte(number)
                if warm:
                    found.append(first * 1000)
                warm = True
                await asyncio.sleep(random.random() * 0.1)

        await asyncio.gather(*(stream(number) for number in range(STREAMS)))
        return found


def go_first(*processes: int | None) -> None:
    """Take the scheduling groups of these processes before those of others, where we may."""
    for process in processes:
        with contextlib.suppress(OSError):
            Path(f"/proc/{process}/autogroup").write_text("-19")


def main() -> None:
    os.environ.setdefault("BEYONDSWE_MODEL_KEY", "sk-of-the-benchmark")
    with tempfile.TemporaryDirectory() as folder:
        scenarios = Path(folder, "scenarios.json")
        scenarios.write_text(json.dumps(SCENARIO))
        command = [sys.executable, "-m", "beyondswe.gateway.scripted", "--scenarios", str(scenarios)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as upstream:
            assert upstream.stdout is not None
            url = upstream.stdout.readline().split()[-1]
            try:
                with Gateway(GatewaySettings("m", url, Budget())) as gateway:
                    sessions = [gateway.open(f"a{n}", Path(folder, f"{n}.jsonl")) for n in range(100)]
                    go_first(os.getpid(), upstream.pid, gateway.pid)
                    ways = {
                        "direct": Way(port=int(url.rsplit(":", 1)[1])),
                        "through the gateway": Way(sessions=sessions),
                    }
                    medians: dict[str, list[float]] = {name: [] for name in ways}
                    print(f"{'ms to the first byte':24}{'streams':>9}{'median':>9}{'p90':>9}{'p99':>9}")
                    for _ in range(ROUNDS):
                        for name, way in ways.items():
                            times = asyncio.run(way.measure())
                            cuts = statistics.quantiles(times, n=100)
                            medians[name].append(cuts[49])
                            print(
                                f"{name:24}{len(times):9}{cuts[49]:9.2f}{cuts[89]:9.2f}{cuts[98]:9.2f}",
                                flush=True,
                            )
                    direct, through = (statistics.median(found) for found in medians.values())
                    print(f"added to the median: {through - direct:.2f} ms")
                    status = Path(f"/proc/{gateway.pid}/status").read_text()
                    resident = next(
                        line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")
                    )
                    print(f"memory of the gateway with 100 attempts open: {int(resident) / 1024:.0f} MiB")
            finally:
                upstream.terminate()


if __name__ == "__main__":
    main()
