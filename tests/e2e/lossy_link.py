"""Simulates a bad cable between two interfaces of this network namespace: drops and delays frames.

lossy_link.py INTERFACE INTERFACE LOSS DELAY. Replaces the kernel's netem, which many machines lack. Runs until
SIGTERM, then prints the numbers of forwarded and lost frames.
"""

import heapq
import random
import select
import signal
import socket
import sys
import time

SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_VNET_HDR, PACKET_MR_PROMISC = 263, 1, 15, 1
ETH_P_ALL, PACKET_OUTGOING = 3, 4
LONGEST = 70_000  # larger than any frame before the network card splits it


def raw_socket(interface):
    """Returns a socket that receives all frames, with the kernel's checksum and length info (virtio_net_hdr)."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    raw.bind((interface, 0))
    number = socket.if_nametoindex(interface)
    raw.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP,
                   number.to_bytes(4, sys.byteorder) + PACKET_MR_PROMISC.to_bytes(2, sys.byteorder) + bytes(10))
    raw.setblocking(False)
    return raw


def forward(ends, loss, delay):
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    waiting, number, passed, lost = [], 0, 0, 0
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    while not over:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, to, frame = heapq.heappop(waiting)
            try:
                to.send(frame)
                passed += 1
            except OSError:
                lost += 1  # the interface is down or its queue is full
        rest = max(waiting[0][0] - now, 0) if waiting else 0.5
        for end in select.select(ends, [], [], rest)[0]:
            try:
                frame, source = end.recvfrom(LONGEST)
            except OSError:
                continue
            if source[2] == PACKET_OUTGOING:
                continue
            if random.random() < loss:
                lost += 1
                continue
            number += 1
            heapq.heappush(waiting, (time.monotonic() + delay, number, other[end], frame))
    print(f"passed on {passed}, lost {lost} frames", flush=True)


if __name__ == "__main__":
    forward([raw_socket(sys.argv[1]), raw_socket(sys.argv[2])], float(sys.argv[3]), float(sys.argv[4]))
