"""Forwards ports of the loopback to Unix sockets, inside a container that has no network.

    python forward.py 28610=/run/beyondswe/28610/model.sock ...

It says "ready" on standard output once every port listens and every socket has been reached, or what failed.
Python 3.6 syntax, standard library only.
"""

import socket
import sys
import threading

CONNECTIONS = 512  # at once; more wait to be accepted


def pump(source, target):
    try:
        while True:
            data = source.recv(1 << 16)
            if not data:
                break
            target.sendall(data)
    except OSError:
        pass
    try:
        target.shutdown(socket.SHUT_WR)  # the other direction may still flow
    except OSError:
        pass


def connect(path):
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(path)
    except OSError:
        server.close()
        raise
    return server


def serve(client, path, places):
    with places:
        try:
            server = connect(path)
        except OSError:
            client.close()  # the gateway is gone: the agent sees a closed connection
            return
        back = threading.Thread(target=pump, args=(server, client), daemon=True)
        back.start()
        pump(client, server)
        back.join()
        client.close()
        server.close()


def accept(listener, path):
    places = threading.BoundedSemaphore(CONNECTIONS)
    while True:
        with places:  # wait for a free place before a thread is spent on the next client
            pass
        try:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(client, path, places), daemon=True).start()
        except (OSError, RuntimeError):
            continue  # out of files or threads: those in use come back


def main(words):
    threading.stack_size(256 * 1024)
    listeners = []
    for word in words:
        port, _, path = word.partition("=")
        connect(path).close()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(port)))
        listener.listen(128)
        listeners.append((listener, path))
    print("ready", flush=True)
    for one in listeners:
        threading.Thread(target=accept, args=one, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError) as error:
        print(f"failed: {error}", flush=True)
        sys.exit(1)
