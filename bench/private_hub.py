"""A room of this process's own where huggingface.co is a server of this machine, so that other tools run unmodified.

Linux only: a private mount namespace (its own hosts file), a private network namespace (nothing but the loopback
address, so nothing can leave), and a certificate made for the occasion. As root, or where users may make user
namespaces; `enter` says why when it cannot.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HOST = "huggingface.co"
ROOT = Path(__file__).resolve().parents[1]
SERVER = ROOT / "tests" / "support" / "loopback_hub.py"

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


class NotPrivate(Exception):  # noqa: N818 - a state of the machine, not a fault
    """This machine does not let the process have a room of its own; says why."""


def enter(folder: Path) -> None:
    """Move this process, and all it starts from now on, into the room. Raises `NotPrivate`, having changed nothing."""
    if sys.platform != "linux":
        message = "namespaces exist on Linux only"
        raise NotPrivate(message)
    _try_in_a_child(folder)
    _enter(folder)


def _try_in_a_child(folder: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        reason = b""
        try:
            _enter(folder)
        except (OSError, NotPrivate) as error:
            reason = str(error).encode()
        os.write(writing, reason)
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor, not a path
        reason = pipe.read()
    if reason:
        raise NotPrivate(reason.decode())


def _enter(folder: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    flags = CLONE_NEWNS | CLONE_NEWNET | (CLONE_NEWUSER if user else 0)
    _call("unshare", libc.unshare(flags))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _call("mount private", libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {HOST}\n")
    _call("mount hosts", libc.mount(bytes(hosts), b"/etc/hosts", None, MS_BIND, None))
    _loopback_up()


def _call(name: str, result: int) -> None:
    if result:
        message = f"{name}: {os.strerror(ctypes.get_errno())}"
        raise NotPrivate(message)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH22x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(control, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | IFF_UP))


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for `HOST` and its key. Raises `NotPrivate` without the openssl program."""
    if not shutil.which("openssl"):
        message = "the openssl program is not there to make a certificate"
        raise NotPrivate(message)
    certificate, key = folder / "hub.pem", folder / "hub.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}",
         "-addext", "keyUsage=critical,digitalSignature,keyCertSign", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@contextlib.contextmanager
def serving(models: Path, certificate: Path, key: Path, log: Path) -> Iterator[None]:
    """The loopback Hub on port 443 of the room, over every model folder `models/ORGANISATION/NAME`."""
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, SERVER, models, "--port", "443", "--cert", certificate, "--key", key],
            stdout=file,
            stderr=file,
        )
    try:
        _wait_for(server, log)
        yield
    finally:
        server.terminate()
        server.wait()


def _wait_for(server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(100):
        if server.poll() is not None:
            sys.exit(f"the loopback Hub stopped:\n{log.read_text()[-2000:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", 443), timeout=1):
            return
        time.sleep(0.1)
    sys.exit("the loopback Hub does not answer")
