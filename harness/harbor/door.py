"""Process 1 of a container that scores for Harbor: takes one job over a socket and becomes its program.

Started as ``python -I -S -B -c SOURCE SOCKET``. The job is a line of JSON (``command``, ``size``) and a tar for ``/``;
the connection becomes the program's standard output. Deliberate:

- The socket's name is gone before anything of the job runs, and nobody else can come in after the first.
- The program replaces this process, so that it is process 1 as in a container of its own (see runner/supervise.py).
"""

import io
import json
import os
import socket
import sys
import tarfile


def main(place):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(1)
    connection, _ = listener.accept()
    listener.close()
    os.unlink(place)
    stream = connection.makefile("rb")
    order = json.loads(stream.readline().decode("ascii"))
    data = stream.read(order["size"])
    if len(data) != order["size"]:
        raise OSError("the job ends early")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall("/")
    os.dup2(connection.fileno(), 1)
    os.chdir("/")
    os.execv(order["command"][0], order["command"])


main(sys.argv[1])
