"""A TCP port at which a server of TensorFlow's is reached over the loopback alone.

    with only_loopback(port):
        server = tf.data.experimental.service.DispatchServer(DispatcherConfig(port=port))

TensorFlow's servers always listen at every interface ("0.0.0.0" is in the source of server_lib.cc), without asking who
connects. gRPC opens its socket with SO_REUSEPORT, so that several sockets of one user can share a port, and a program
of a few instructions says which of them gets a connection (SO_ATTACH_REUSEPORT_CBPF, socket(7)). So a socket of our
own listens first: the second one, TensorFlow's, gets what comes from the loopback to the loopback, and ours all the
rest, which it drops unanswered. There is no moment at which the port is open to others, and accepted connections cost
nothing more.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import socket
import struct
from collections.abc import Iterator

from headrace.configs.errors import RunError

_ATTACH_FILTER, _ATTACH_REUSEPORT_CBPF = 26, 51
"""Socket options of Linux (asm-generic/socket.h) that Python has no names for."""
_OURS, _TENSORFLOWS = 0, 1
"""The places of the sockets among those that share the port, in the order in which they began to listen."""
_PACKET = 0xFFF00000
"""SKF_NET_OFF: offsets from here on are those of the IP header."""
_LOAD_BYTE, _LOAD_WORD, _AND, _IF_EQUAL, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
"""Instructions of classic BPF (linux/bpf_common.h)."""
_TO_US = -1
"""A jump to the last instruction."""
_IP4_LOOPBACK, _IP4_NETWORK = 0x7F000000, 0xFF000000
_SECONDS = 0.3
"""A connection within one machine takes far less."""
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses of documentation (RFC 5737, RFC 3849): what the machine would send from to them is how others see it."""


@contextlib.contextmanager
def only_loopback(port: int) -> Iterator[None]:
    """While the context lasts, a gRPC server at `port` gets connections of the loopback alone. Call `check` once it
    listens.

    Raises RunError where the port is taken, or where the system cannot do that.
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


def check(port: int) -> None:
    """Raise RunError if a server at `port` can be reached by an address of this machine other than the loopback."""
    for address in _addresses():
        with contextlib.suppress(OSError), socket.create_connection((address, port), _SECONDS):
            raise RunError(f"{_CANNOT}: port {port} answers at {address}. {_WAY_OUT}")


_CANNOT = "this system does not keep TensorFlow's server to the loopback"
_WAY_OUT = "`--listen 0.0.0.0` lets it listen at every interface, where everyone who reaches the port can use it"


def _take(ours: socket.socket, port: int) -> None:
    with socket.socket(ours.family) as alone:  # fails where anybody listens, also someone who would share
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(alone, port)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    _bind(ours, port)


def _family() -> socket.AddressFamily:
    """That of the socket that gRPC will open."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return socket.AF_INET6
    return socket.AF_INET


def _bind(one: socket.socket, port: int) -> None:
    """To every address, IPv4 within IPv6, as gRPC does: only equal addresses share a port."""
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    one.bind(("", port))


def _program() -> list[tuple[int, int, int, int]]:
    """What decides who gets a connection: (instruction, jump if true, jump if false, operand)."""
    ip4 = [
        step
        for place in (12, 16)  # where it comes from and goes to
        for step in (
            (_LOAD_WORD, 0, 0, _PACKET + place),
            (_AND, 0, 0, _IP4_NETWORK),
            (_IF_EQUAL, 0, _TO_US, _IP4_LOOPBACK),
        )
    ]
    ip6 = [
        step
        for place, word in zip(range(8, 40, 4), (0, 0, 0, 1) * 2, strict=True)
        for step in ((_LOAD_WORD, 0, 0, _PACKET + place), (_IF_EQUAL, 0, _TO_US, word))
    ]
    to_tensorflow = (_RETURN, 0, 0, _TENSORFLOWS)
    is_ip4 = [(_LOAD_BYTE, 0, 0, _PACKET), (_AND, 0, 0, 0xF0), (_IF_EQUAL, 0, len(ip4) + 1, 0x40)]
    steps = [*is_ip4, *ip4, to_tensorflow, *ip6, to_tensorflow]
    to_us = len(steps)
    jumps = [
        (code, yes, to_us - place - 1 if no == _TO_US else no, to) for place, (code, yes, no, to) in enumerate(steps)
    ]
    return [*jumps, (_RETURN, 0, 0, _OURS)]


def _attach(one: socket.socket, option: int, steps: list[tuple[int, int, int, int]]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    one.setsockopt(socket.SOL_SOCKET, option, struct.pack("@HP", len(steps), ctypes.addressof(code)))


def _addresses() -> Iterator[str]:
    """How this machine is seen from others, as far as it can tell without sending anything."""
    for family, elsewhere in _ELSEWHERE.items():
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as one:
            one.connect((elsewhere, 9))
            yield one.getsockname()[0]
