"""Which addresses may be called. Owns the rule: public ones, and those that the operator allows.

A name is resolved here, once, and the connection goes to the address that was checked: a name
that answers differently the second time gains nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from trackyard.core.errors import InvalidInput, SetupError

MAX_URL = 2000
_PORTS = {"https": 443, "http": 80}
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: Forms of IPv6 that carry an IPv4 address, which is judged in their place.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class AllowedAddresses:
    """What an operator allows besides public addresses."""

    networks: tuple[Network, ...] = ()
    #: host names, whatever they resolve to
    hosts: frozenset[str] = frozenset()
    #: whether `http:` may be called, too
    plain: bool = False


@dataclass(frozen=True, slots=True)
class AddressTarget:
    """An address that was checked, taken apart."""

    url: str
    scheme: str
    host: str
    port: int
    #: path and query, as they go on the request's line
    path: str


def read_allowed(entries: Sequence[str], *, plain: bool = False) -> AllowedAddresses:
    """Read the operator's list of networks (`10.1.0.0/16`), addresses and host names."""
    networks: list[Network] = []
    hosts: set[str] = set()
    for entry in entries:
        text = entry.strip().lower()
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError:
            if not text or "/" in text or ":" in text or "*" in text:
                raise SetupError(
                    f"outbound_allow has {entry!r}, which is no network and no host name",
                    hint="write networks as 10.1.0.0/16 and hosts as hooks.example.org",
                ) from None
            hosts.add(text)
    return AllowedAddresses(tuple(networks), frozenset(hosts), plain)


def read_target(url: str, allowed: AllowedAddresses) -> AddressTarget:
    """Take an address apart, or say why it cannot be called."""
    if not url.strip():
        raise InvalidInput(f"Webhook URL cannot be empty or just whitespace: {url[:80]!r}")
    if len(url) > MAX_URL or any(ord(char) < 33 or ord(char) == 127 for char in url):
        raise InvalidInput(
            f"Invalid webhook URL: it has at most {MAX_URL} characters and no spaces"
        )
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
    except ValueError as fault:
        raise InvalidInput(f"Invalid webhook URL {url[:80]!r}: {fault}") from None
    schemes = ("https", "http") if allowed.plain else ("https",)
    if parts.scheme not in schemes:
        raise InvalidInput(
            f"Invalid webhook URL scheme: {parts.scheme[:20]!r}. Allowed schemes are:"
            f" {', '.join(schemes)}."
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("a webhook URL carries no user or password; use the webhook's secret")
    host = (parts.hostname or "").rstrip(".")
    if not host:
        raise InvalidInput(f"Webhook URL must include a hostname: {url[:80]!r}")
    try:
        host = host if _literal(host) else host.encode("idna").decode()
    except UnicodeError:
        raise InvalidInput(f"Webhook URL has a hostname that is none: {host[:80]!r}") from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii():
        raise InvalidInput("Webhook URL must be written in ASCII, with % for other characters")
    return AddressTarget(url, parts.scheme, host, port or _PORTS[parts.scheme], path)


def resolve(target: AddressTarget, allowed: AllowedAddresses) -> list[str]:
    """Return the addresses of a target, all of which may be called; blocks, so off the loop."""
    literal = _literal(target.host)
    if literal is not None:
        found: list[Address] = [literal]
    else:
        try:
            answers = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        except OSError:
            raise InvalidInput(f"Cannot resolve webhook URL hostname {target.host!r}") from None
        found = [ipaddress.ip_address(str(answer[4][0]).split("%")[0]) for answer in answers]
    if target.host not in allowed.hosts:
        for address in found:
            if not _may_call(address, allowed):
                raise InvalidInput(
                    f"Webhook URL must not resolve to a non-public IP address: {target.host!r}"
                    f" resolves to {address}; an operator can allow it with `outbound_allow`"
                )
    return list(dict.fromkeys(str(address) for address in found))


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _may_call(address: Address, allowed: AllowedAddresses) -> bool:
    inner = _carried(address)
    if any(inner in network for network in allowed.networks if network.version == inner.version):
        return True
    return inner.is_global and not inner.is_multicast


def _carried(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 one stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
