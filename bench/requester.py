"""A program of its own that asks a server the same thing as often as it can for some seconds.

It reads what to do as JSON from its input (the token stays off the command line) and prints how
many answers came. It imports nothing of the project, to be light.
"""

import json
import selectors
import socket
import sys
import time

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"


def answer_size(data: bytes) -> int:
    """Return how long the answer is that begins here; 0 while its head is not complete."""
    end = data.find(HEAD_END)
    if end < 0:
        return 0
    head = data[:end].lower()
    start = head.index(LENGTH) + len(LENGTH)
    return end + len(HEAD_END) + int(head[start:].split(b"\r\n", 1)[0])


def connect(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def main() -> None:
    order = json.loads(sys.stdin.read())
    request = order["request"].encode()
    selector = selectors.DefaultSelector()
    received: dict[socket.socket, bytes] = {}
    for _ in range(order["connections"]):
        connection = connect(order["host"], order["port"])
        selector.register(connection, selectors.EVENT_READ)
        received[connection] = b""
        connection.sendall(request)
    began = time.monotonic()
    answers = 0
    while (now := time.monotonic()) < began + order["seconds"]:
        for key, _ in selector.select(1.0):
            answered = key.fileobj
            assert isinstance(answered, socket.socket)
            data = received[answered] + answered.recv(65536)
            size = answer_size(data)
            if size and len(data) >= size:
                if not data.startswith(b"HTTP/1.1 200"):
                    raise SystemExit(data.decode("utf-8", "replace"))
                answers += 1
                data = data[size:]
                answered.sendall(request)
            received[answered] = data
    result = {"answers": answers, "seconds": now - began, "cpu": time.process_time()}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
