"""Free TCP ports, and ports at which a server of TensorFlow's is only reachable from the loopback interface.

    with only_loopback(port):
        server = tf.data.experimental.service.DispatchServer(DispatcherConfig(port=port))

TensorFlow's servers always listen on all interfaces ("0.0.0.0" is in the source of server_lib.cc), without
authenticating clients. gRPC opens its socket with SO_REUSEPORT, so several sockets of one user can share a port, and a
short BPF program selects the socket for each connection (SO_ATTACH_REUSEPORT_CBPF, socket(7)). So a socket of our own
listens first: the second one, TensorFlow's, gets connections from the loopback to the loopback, and ours gets all
others and drops them unanswered. The port is never open to others, not even for a moment, and accepted connections cost
nothing extra.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import secrets
import socket
import struct
from collections.abc import Iterator

from headrace.common.errors import RunError

LOWEST_PORT, PORTS = 20000, 12768
"""The range of free ports ends at 32767, below the ports that Linux assigns to outgoing connections."""
_ATTACH_FILTER, _ATTACH_REUSEPORT_CBPF = 26, 51
"""Socket options of Linux (asm-generic/socket.h) for which Python has no names."""
_OURS, _TENSORFLOWS = 0, 1
"""Indices of the sockets that share the port, in the order in which they started to listen."""
_PACKET = 0xFFF00000
"""SKF_NET_OFF: offsets from here are those of the IP header."""
_LOAD_BYTE, _LOAD_WORD, _AND, _IF_EQUAL, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
"""Instructions of classic BPF (linux/bpf_common.h)."""
_TO_US = -1
"""Stands for a jump to the last instruction."""
_IP4_LOOPBACK, _IP4_NETWORK = 0x7F000000, 0xFF000000
_SECONDS = 0.3
"""Timeout of a connection within one machine, which takes far less."""
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses for documentation (RFC 5737, RFC 3849): packets to them would have the address by which others reach us."""
_CANNOT = "this system cannot restrict TensorFlow's server to the loopback"
_WAY_OUT = "`--listen 0.0.0.0` lets it listen on all interfaces, where everyone who reaches the port can use it"


def free_port() -> int:
    """Return a port at which nothing listens now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return different ports at which nothing listens now.

    They are outside of the range that the system assigns to outgoing connections (ip_local_port_range in Linux'
    ip-sysctl.rst), which could otherwise take them before the process that is to listen.
    """
    found: list[int] = []
    with contextlib.ExitStack() as opened:
        while len(found) < count:
            one = opened.enter_context(socket.socket())
            with contextlib.suppress(OSError):  # taken
                one.bind(("", LOWEST_PORT + secrets.randbelow(PORTS)))
                found.append(int(one.getsockname()[1]))
    return found


@contextlib.contextmanager
def only_loopback(port: int) -> Iterator[None]:
    """Restrict a gRPC server that starts at `port` inside to connections of the loopback. Call `check_loopback` then.

    Raises RunError if the port is taken, or if the system does not support this.
    """
    with socket.socket(_family()) as ours:
        try:
            _take(ours, port)
            _attach(ours, _ATTACH_FILTER, [(_RETURN, 0, 0, 0)])
            _attach(ours, _ATTACH_REUSEPORT_CBPF, _program())
            ours.listen(1)
        except (OSError, AttributeError) as error:
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                raise RunError(f"it cannot start at port {port}: {error.strerror}") from error
            raise RunError(f"{_CANNOT}: {error}. {_WAY_OUT}") from error
        yield


def check_loopback(port: int) -> None:
    """Raise RunError if a server at `port` is reachable by an address of this machine other than the loopback."""
    for address in _addresses():
        with contextlib.suppress(OSError), socket.create_connection((address, port), _SECONDS):
            raise RunError(f"{_CANNOT}: port {port} answers at {address}. {_WAY_OUT}")


def _take(ours: socket.socket, port: int) -> None:
    with socket.socket(ours.family) as alone:  # fails if anybody listens, even a process that would share the port
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(alone, port)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    _bind(ours, port)


def _family() -> socket.AddressFamily:
    """The family of the socket that gRPC will open."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return socket.AF_INET6
    return socket.AF_INET


def _bind(one: socket.socket, port: int) -> None:
    """Bind to all addresses, IPv4 within IPv6 as gRPC does: only equal addresses share a port."""
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    one.bind(("", port))


def _program() -> list[tuple[int, int, int, int]]:
    """The program that selects the socket of a connection: (instruction, jump if true, jump if false, operand)."""
    ip4 = [
        step
        for offset in (12, 16)  # source and destination address
        for step in (
            (_LOAD_WORD, 0, 0, _PACKET + offset),
            (_AND, 0, 0, _IP4_NETWORK),
            (_IF_EQUAL, 0, _TO_US, _IP4_LOOPBACK),
        )
    ]
    ip6 = [
        step
        for offset, word in zip(range(8, 40, 4), (0, 0, 0, 1) * 2, strict=True)  # both addresses have to be ::1
        for step in ((_LOAD_WORD, 0, 0, _PACKET + offset), (_IF_EQUAL, 0, _TO_US, word))
    ]
    to_tensorflow = (_RETURN, 0, 0, _TENSORFLOWS)
    is_ip4 = [(_LOAD_BYTE, 0, 0, _PACKET), (_AND, 0, 0, 0xF0), (_IF_EQUAL, 0, len(ip4) + 1, 0x40)]
    steps = [*is_ip4, *ip4, to_tensorflow, *ip6, to_tensorflow]
    to_us = len(steps)
    jumps = [
        (code, yes, to_us - index - 1 if no == _TO_US else no, to) for index, (code, yes, no, to) in enumerate(steps)
    ]
    return [*jumps, (_RETURN, 0, 0, _OURS)]


def _attach(one: socket.socket, option: int, steps: list[tuple[int, int, int, int]]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    one.setsockopt(socket.SOL_SOCKET, option, struct.pack("@HP", len(steps), ctypes.addressof(code)))


def _addresses() -> Iterator[str]:
    """The addresses by which other machines reach this one, as far as known without sending anything."""
    for family, elsewhere in _ELSEWHERE.items():
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as one:
            one.connect((elsewhere, 9))
            yield one.getsockname()[0]
