"""Opens TLS connections without a certificate and sends endless requests of 4 MiB: ADDRESS CONNECTIONS CALLS. Speaks
just enough HTTP/2 (RFC 9113) to respect the server's windows. Prints what it has sent."""

import socket
import ssl
import struct
import sys
import threading
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
PATH = b"/pfc.proto.CoordinatorService/Submit"
REQUEST = 4 << 20
SECONDS = 8


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """Encodes a header that is in no table (RFC 7541, 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


CALL = b"".join(literal(*field) for field in (
    (b":method", b"POST"), (b":scheme", b"https"), (b":path", PATH), (b":authority", b"x"),
    (b"content-type", b"application/grpc"), (b"te", b"trailers")))


class Connection:
    def __init__(self, address, calls):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        tls.set_alpn_protocols(["h2"])
        host, port = address.rsplit(":", 1)
        self.socket = tls.wrap_socket(socket.create_connection((host, int(port)), 60))
        self.socket.setblocking(False)
        self.out = bytearray(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
        self.received = b""
        self.window, self.initial, self.windows = 65_535, 65_535, {}
        self.left = {}
        self.sent = 0
        for call in range(calls):
            stream = 2 * call + 1
            self.out += frame(HEADERS, 4, stream, CALL)
            self.windows[stream] = None
            self.left[stream] = struct.pack(">BI", 0, REQUEST)

    def read(self):
        while True:
            try:
                piece = self.socket.recv(1 << 16)
            except (ssl.SSLWantReadError, BlockingIOError):
                break
            if not piece:
                raise ConnectionError("closed")
            self.received += piece
        while len(self.received) >= 9:
            length = int.from_bytes(self.received[:3], "big")
            if len(self.received) < 9 + length:
                return
            kind, flags, stream = struct.unpack(">BBI", self.received[3:9])
            self.take(kind, flags, stream, self.received[9:9 + length])
            self.received = self.received[9 + length:]

    def take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & 1:
            for i in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[i:i + 6])
                if name == 4:
                    self.initial = value
            self.out += frame(SETTINGS, 1, 0)
        elif kind == PING and not flags & 1:
            self.out += frame(PING, 1, 0, payload)
        elif kind == WINDOW_UPDATE:
            more = struct.unpack(">I", payload)[0]
            if stream == 0:
                self.window += more
            elif stream in self.windows:
                self.windows[stream] = (self.windows[stream] if self.windows[stream] is not None else self.initial) + more
        elif kind == RST_STREAM:
            self.windows.pop(stream, None)
        elif kind == GOAWAY:
            raise ConnectionError("go away")

    def write(self):
        for stream in list(self.windows):
            if len(self.out) > 1 << 18:
                break
            window = self.windows[stream] if self.windows[stream] is not None else self.initial
            size = min(window, self.window, 16_384, REQUEST - 1)
            if size < 6:
                continue
            begin = self.left.pop(stream, b"")
            self.out += frame(DATA, 0, stream, begin + b"x" * (size - len(begin)))
            self.windows[stream] = window - size
            self.window -= size
            self.sent += size
        while self.out:
            try:
                sent = self.socket.send(self.out[:1 << 16])
            except (ssl.SSLWantWriteError, BlockingIOError):
                return
            del self.out[:sent]


def attack(address, calls, results):
    connection = None
    try:
        connection = Connection(address, calls)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            connection.read()
            connection.write()
            time.sleep(0.001)
        results.append((connection.sent, True))
    except OSError:
        results.append((connection.sent if connection else 0, False))


def main(address, connections, calls):
    results = []
    threads = [threading.Thread(target=attack, args=(address, int(calls), results)) for _ in range(int(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{len(results)} connections, {sum(open_ for _, open_ in results)} at the end, "
          f"{sum(sent for sent, _ in results) >> 20} MiB sent")


if __name__ == "__main__":
    main(*sys.argv[1:])
