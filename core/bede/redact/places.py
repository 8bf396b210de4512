r"""Places where only a credential stands.

A private key between its `BEGIN` and `END`, the password in a URL, what follows `Authorization: Bearer`, the
signature of a signed link, the argument of `mysql -p`. The place is proof enough, so the value is only asked
whether it stands for something else (`$PASSWORD`, `<token>`, `***`). Every look back or ahead is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from bede.redact.values import is_given, is_opaque, is_pair, is_sample, is_shown, rx

Span = tuple[int, int, str]

KINDS = frozenset(
    ("private-key", "url-password", "basic-auth", "bearer-token", "authorization", "command-password", "signed-url")
)

_WINDOW = 8192
_BEGIN = rb"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_END = rb"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
# What may stand between the lines of a key: line ends, also escaped ones; quotes, commas, the marks of
# comments, quotations and diffs; line numbers.
_BETWEEN = rb"""(?:[\s"'`+,>|#*()]|\\+[nrt]|\\+(?=[\s"'])|(?<=\n)-(?!-)|(?<=[\s\\])\d{1,6}[|:\t?]){0,80}+"""
_BODY = (
    rb"(?:" + _BETWEEN + rb"[\w-]{3,24}: [^\n\\]{1,120}){0,6}+"
    rb"(?:" + _BETWEEN + rb"[A-Za-z0-9+/=_-]{16,}+)++"
    rb"(?:" + _BETWEEN + rb"=?[A-Za-z0-9+/=]{0,76}+(?=" + _BETWEEN + rb"(?:-{4,5} ?END|\.{3}|\?|\Z)))?"
    rb"(?:" + _BETWEEN + rb"-{4,5} ?END[A-Z0-9 ]{0,60}-{0,5})?"
)
_HOST = rb"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z][\w.-]*|\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?(?:[/?#,;)]|\Z)"
_PATHED = rb"[^\s\"'`<>\\^\0/:@]{0,64}:([^\s\"'`<>\\^\0/@]{1,128})@(?=[\w\[])"

_SPACED = rb"[ =]{0,48}(?:\\{0,8}[\"'])?([^\s\"'`\\\0-][^\s\"'`\\\0]*)"
_JOINED = rb"(?:\\{0,8}[\"'])?(?!ort|assword)([^\s\"'`\\\0-][^\s\"'`\\\0]+)"
_PAIRED = rb"[ =]{0,48}(?:\\{0,8}[\"'])?[^\s:\"'$\0]{0,64}:(?!//)([^\s\"'`\\\0]+)"
#: What parts the words of a command in JSON and in code, and its name from a list of its arguments.
_LISTED = (
    rb"\\{0,8}[\"'`]\s{0,2},\s{0,24}(?:\\{0,8}[\"'`]?(?:args|arguments|argv)\\{0,8}[\"'`]?\s{0,2}[:=]\s{0,2})?[\[(]?\s{0,24}"
    rb"\\{0,8}[\"'`]"
)
_QUOTED = rb"[\w.-]{0,16}\\{0,8}[\"'`]"
#: How far behind a command its password is looked for.
_REACH = 320
_COMMANDS = (
    (b"mysql", (b" -p",), _JOINED),
    (b"mariadb", (b" -p",), _JOINED),
    (b"sshpass", (b" -p",), _SPACED),
    (b"login", (b" -p ", b" -p="), _SPACED),
    (b"mongo", (b" -p ",), _SPACED),
    (b"redis-cli", (b" -a ",), _SPACED),
    (b"ldap", (b" -w ",), _SPACED),
    (b"sqlcmd", (b" -P ",), _SPACED),
    (b"smbclient", (b" -U ",), rb" {0,48}[^\s%\0]{1,64}%([^\s\"'`\\\0]+)"),
    (b"curl", (b" -u", b" --user", b" -U", b" --proxy-user"), _PAIRED),
    (b"http ", (b" -a ",), _PAIRED),
)
_MEANT = frozenset(b"puawPU-")


def each(needle: bytes, page: bytes) -> Iterator[int]:
    """Yield every place of the needle."""
    at = page.find(needle)
    while at >= 0:
        yield at
        at = page.find(needle, at + len(needle))


def keys(needle: bytes, raw: bytes, low: bytes, shape: bytes) -> Iterator[Span]:
    """Yield private key blocks, also those cut off at either end, escaped, quoted or indented."""
    reached = 0
    for at in each(needle, low):
        opening = rx(_BEGIN).search(raw, max(reached, at - 60), at + 40)
        closing = None if opening else rx(_END).search(raw, max(reached, at - 60), at + 40)
        if opening:
            body = rx(_BODY).match(raw, opening.end())
            if body:
                reached = body.end()
                yield opening.start(), reached, "private-key"
        elif closing:
            start = _headless(raw, reached, closing.start())
            reached = closing.end()
            if start < closing.start():
                yield start, reached, "private-key"


def _headless(raw: bytes, floor: int, end: int) -> int:
    """Return where a key begins whose first lines were cut away."""
    start = end
    for line in reversed(rx(rb"[^\n\\]+|\\.|\n").findall(raw, max(floor, end - _WINDOW), end)):
        text = line.strip(b" \t\r\n\"'>|+#*,")
        if text and text[:1] != b"\\" and not rx(rb"[A-Za-z0-9+/=]+").fullmatch(text):
            break
        start -= len(line)
    start = end - len(raw[start:end].lstrip())
    return start if rx(rb"[A-Za-z0-9+/]{24}").search(raw, start, end) else end


def putty(needle: bytes, raw: bytes, low: bytes, shape: bytes) -> Iterator[Span]:
    """Yield the private half of a PuTTY key file."""
    for at in each(needle, low):
        body = rx(rb"\s*\d+\s+((?:[A-Za-z0-9+/=]{4,}\s{1,4})+)").match(raw, at + len(needle))
        if body:
            yield body.start(1), body.start(1) + len(body[1].rstrip()), "private-key"


def urls(needle: bytes, raw: bytes, low: bytes, shape: bytes) -> Iterator[Span]:
    """Yield what stands between a user's name and the host, also with `@`, `:` and `/` in it."""
    for at in each(b"://", raw):
        whole = rx(rb"[^\s\"'`<>\\^\0]{1,400}").match(raw, at + 3)
        if whole and b"@" in whole[0]:
            yield from _userinfo(at + 3, whole[0])
    for at in each(b":/", raw):  # taken for a path, a URL loses a slash
        pair = rx(_PATHED).match(raw, at + 2)
        if pair and is_given(pair[1]) and rx(rb"(?<![\w.-])[A-Za-z][A-Za-z0-9+]+$").search(raw, max(0, at - 24), at):
            yield *pair.span(1), "url-password"
    for at in each(b"@tcp(", raw):
        user, _, word = (raw[max(0, at - 200) : at].split() or [b""])[-1].partition(b":")
        word = word if rx(rb"[\w.-]+").fullmatch(user.rpartition(b"=")[2].strip(b"\"'`\\")) else b""
        if is_given(word) and b"\0" not in word:
            yield at - len(word), at, "url-password"


def _userinfo(at: int, whole: bytes) -> Iterator[Span]:
    mark = rx(rb"[/?#]").search(whole)
    path = mark.start() if mark else len(whole)
    end, colon = whole.rfind(b"@", 0, path), whole.find(b":", 0, path)
    port = whole[colon + 1 : path].isdigit() and whole[path : path + 1] in (b"", b"/")
    if colon >= 0 and not port and not rx(_HOST).match(whole, end + 1 if end >= 0 else path):
        later = rx(rb"@(?=" + _HOST + rb")").search(whole, path, path + 160)  # a `/`, `?` or `#` inside the password
        end = later.start() if later else end
    if end < 0 or (whole[:1] == b"[" and b"]" not in whole[:end]):
        return  # no password, or `scheme://[user:password@]host` of a manual
    colon = colon if 0 <= colon < end else end
    if is_given(whole[colon + 1 : end]):
        yield at + colon + 1, at + end, "url-password"
    user = whole[:colon]
    if len(user) >= 20 and is_opaque(user, firm=True) and not is_sample(user):
        yield at, at + len(user), "url-password"


def signed(needle: bytes, raw: bytes, low: bytes, shape: bytes) -> Iterator[Span]:
    """Yield the signature that makes a link a key: Azure's `sig=`, AWS's and Google's `…-Signature=`."""
    for at in each(needle, low):
        value = rx(rb"[A-Za-z0-9%/+_-]{32,}(?:=|%3[Dd]){0,2}").match(raw, at + len(needle))
        walled = value and raw[value.end() : value.end() + 1] == b"\0"
        if value and raw[at - 1 : at] in (b"?", b"&", b";", b"-") and not walled and not is_shown(value[0]):
            yield *value.span(), "signed-url"


def commands(needle: bytes, raw: bytes, low: bytes, shape: bytes) -> Iterator[Span]:
    """Yield passwords given by a short flag that means a password to that command only."""
    if not any(raw[at + 2 : at + 3] and raw[at + 2] in _MEANT for at in each(needle, raw)):
        return
    for name, flags, pattern in _COMMANDS:
        for at in each(name, low):
            for flag in flags:
                yield from _flagged(raw, at, flag, pattern)


def listed(needle: bytes, raw: bytes, low: bytes, shape: bytes) -> Iterator[Span]:
    """Yield the same of commands that are written as lists of their words."""
    for name, flags, pattern in _COMMANDS:
        for at in each(name, low):
            if not rx(_QUOTED).match(raw, at + len(name)):
                continue
            typed = rx(_LISTED).sub(lambda between: b" " * len(between[0]), raw[at : at + 2 * _REACH])
            for flag in flags:
                for start, end, kind in _flagged(typed, 0, flag, pattern):
                    yield at + start, at + end, kind


def _flagged(raw: bytes, at: int, flag: bytes, pattern: bytes) -> Iterator[Span]:
    place = raw.find(flag, at, at + _REACH)
    if place < 0 or b"\n" in raw[at:place].replace(b"\\\n", b""):
        return
    value = rx(pattern).match(raw, place + len(flag))
    if not value or (value[1].isdigit() and len(value[1]) < 6) or raw[value.end() : value.end() + 1] == b"\0":
        return
    if is_given(value[1]):
        yield *value.span(1), "command-password"


def credential(raw: bytes, at: int, scheme: bytes, *, sure: bool = False) -> Iterator[Span]:
    """Yield what follows `Bearer`, `Basic` or another scheme (`b""`: none known) if it is a credential."""
    value = rx(rb"[A-Za-z0-9_~+/=.%:!$*-]{4,}").match(raw, at)
    if not value or is_sample(value[0]) or raw[value.end() : value.end() + 1] in (b"\0", b"{", b"(", b"["):
        return
    text = value[0].rstrip(b".:")
    mixed = scheme and rx(rb"[A-Za-z_-]\d|\d[A-Za-z_-]").search(text) and len(text) >= (6 if sure else 8)
    long = sure and scheme and len(text) >= 16
    if scheme == b"basic" and is_pair(text):
        yield at, at + len(text), "basic-auth"
    elif mixed or long or is_opaque(text, firm=False):
        yield at, at + len(text), "bearer-token" if scheme == b"bearer" else "authorization"
