"""Access control of the page: host names, origins, tokens and security headers."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from stream_osr.errors import InvalidParameter
from stream_osr.printable_text import brief

LEAST_TOKEN = 16
"""Least characters of a token."""
MOST_NAME = 64
"""Most characters of the name of a token."""
VARIABLE = "STREAM_OSR_TOKENS"
"""Environment variable with tokens, one ``name:token`` on each line, if there is no token file."""

LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Tokens:
    """Tokens of the people who may make changes. They are compared in constant time.

    Parameters
    ----------
    text
        ``name:token`` on each line. Empty lines and lines that begin with ``#`` are skipped.
    source
        Source of the text, for messages.

    Raises
    ------
    InvalidParameter
        If a line is invalid. The message names the first one.

    Examples
    --------
    >>> tokens = Tokens("anna:correct-horse-battery")
    >>> tokens.who("Bearer correct-horse-battery"), tokens.who("Bearer wrong"), tokens.who(None)
    ('anna', None, None)
    """

    def __init__(self, text: str, source: str = "the tokens") -> None:
        self._by: dict[str, bytes] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, colon, token = (part.strip() for part in line.partition(":"))
            where = f"line {number} of {source}"
            if not (name and colon and token):
                raise InvalidParameter(f"{where} is not of the form name:token")
            if len(name) > MOST_NAME or not name.isprintable():
                raise InvalidParameter(f"{where}: the name {brief(name)} should have at most {MOST_NAME} characters")
            if len(token) < LEAST_TOKEN or not (token.isascii() and token.isprintable()):
                raise InvalidParameter(
                    f"{where}: the token of {brief(name)} should have at least {LEAST_TOKEN} characters, ASCII only. "
                    "`python -c 'import secrets; print(secrets.token_urlsafe())'` creates one"
                )
            if name in self._by:
                raise InvalidParameter(f"{where}: {brief(name)} has a token already")
            self._by[name] = _digest(token)
        if not self._by:
            raise InvalidParameter(f"{source} has no token. Write a line name:token for each person")

    def who(self, authorization: str | None) -> str | None:
        """Return the name of the token in a header ``Authorization``, or ``None``."""
        kind, _, token = (authorization or "").partition(" ")
        given, found = _digest(token.strip()), None
        for name, digest in self._by.items():  # all of them, so that the time reveals nothing
            if hmac.compare_digest(given, digest):
                found = name
        return found if kind.lower() == "bearer" else None


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="replace")).digest()


def read_tokens(path: Path | None, environment: Mapping[str, str]) -> Tokens:
    """Read the tokens from a file or the environment.

    Raises
    ------
    InvalidParameter
        If there are none.
    """
    if path is not None:
        try:
            return Tokens(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise InvalidParameter(f"cannot read the tokens in {path}: {why}") from None
    if VARIABLE in environment:
        return Tokens(environment[VARIABLE], VARIABLE)
    raise InvalidParameter(
        f"--allow-commands needs tokens: --tokens FILE with a line name:token for each person, or {VARIABLE}"
    )


class KnownHosts:
    """Host names and origins from which the page accepts requests.

    Another site can point its host name to this address (DNS rebinding). Its requests then contain that host name and
    are refused. A form of another site sends that site as its origin and is refused.

    Parameters
    ----------
    bound
        Address that the server binds.
    port
        Port of the server.
    more
        Additional names of the page.

    Examples
    --------
    >>> doors = KnownHosts("127.0.0.1", 8700)
    >>> doors.knows("localhost:8700"), doors.knows("evil.example:8700"), doors.knows(None)
    (True, False, False)
    >>> doors.same("http://localhost:8700", "localhost:8700"), doors.same("http://evil.example", "localhost:8700")
    (True, False)
    """

    def __init__(self, bound: str, port: int, more: Sequence[str] = ()) -> None:
        own = f"[{bound}]" if ":" in bound else bound
        names = {*LOCAL, own.lower()} - {"0.0.0.0", "[::]"}
        self._hosts = {f"{name}:{port}" for name in names} | ({*names} if port in (80, 443) else set())
        self._hosts |= {name.lower() for name in more}

    def knows(self, host: str | None) -> bool:
        """Return whether a host name is a name of this page."""
        return host is not None and host.lower() in self._hosts

    def same(self, origin: str | None, host: str | None) -> bool:
        """Return whether a request comes from this page. Programs other than browsers send no origin."""
        if origin is None:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and self.knows(parts.netloc) and parts.netloc == (host or "").lower()


def is_local(bound: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(bound).is_loopback
    except ValueError:
        return bound.lower() == "localhost"


def security_headers(image_origins: Collection[str]) -> dict[str, str]:
    """Return the security headers of each response.

    Parameters
    ----------
    image_origins
        Origins of pictures of instances.
    """
    images = " ".join(["'self'", "data:", *sorted(image_origins)])
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
