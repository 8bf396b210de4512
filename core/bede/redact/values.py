"""What a value must look like to be believed a secret.

Pure judgement on bytes: no place, no name, no text around. A value is refused when it stands for a secret
(a template, a mask, documentation) or says where one is (a variable, a path, an entry of a vault), and what
is left is weighed by how it was made: by a machine, or by a person who needed a password. Nothing here
compiles a pattern before it is needed, and no pattern can backtrack over more than one value.
"""

from __future__ import annotations

import re
from functools import cache

# Whole values that are never secrets: types, literals, what labels, prose and placeholders say.
WORDS = frozenset(
    b"""a about above access account after again age all also always an and any apikey api_key api-key are arg
    argument arguments array as asked at auth authentication authorization automatic be because been before
    being below bool boolean but by bytes can cannot changed changeme char characters check checked class const
    copied could credential credentials current data date default deleted denied deprecated dict disabled do
    does dynamic each either empty enabled encrypted enter entered env environment error except expected
    expired export false field fields file final flag float flow follows for format found from function
    generated get given guest handling has hash hashed have header here hidden hint how id if import in include
    incorrect input instead int integer internal invalid is issued it its itself json key keys later let list
    literal local login long longer lost management manager map masked may mismatch missing model must name needed never
    new nil no none not null number object of off ok on once one only oauth oauth2 option optional options or
    other out param parameter parameters pass passphrase passwd password passwords path placeholder plain
    plaintext policy private prompt prompts prompted property protected protection provided public pwd random
    raw readonly record ref refresh rejected removed renewed request required reset result returned reused
    revoked rotated rotation safe salted same same-origin schema secret secrets secretstr see seed self set
    setting shared short should simple skipped some standard static stdin storage store stored str strength
    string strong struct support switch system that the then this todo token tokens too true tuple type typed
    undefined unknown unset update updated usage use used user username using utf8 uuid validation value values
    variable varchar vault verified verify void was weak when where which will with without word wrong x
    x-oauth-basic yes you your""".split()
)

_SAMPLE = (
    rb"(?i)example|sample|placeholder|change[_-]?(?:me|this|it)\b|changeit|replace[_-]?(?:me|with|this)"
    rb"|\byour|[_-]your[_-]|your[_-]|^yourp|redacted|dummy|insert[_-]|(?<![A-Za-z0-9])todo|fixme"
    rb"|not[_-]?a[_-]?(?:real|secret)|x{5,}|\*{3,}|\.{3}|0{12,}|^(?:my|the|some|fake|test)[_-]?(?:secret|pass|token|key|api)[a-z_-]*$|lorem"
)
_TEMPLATE = (
    rb"^[\W_]*$|^(.)\1{2,}$|^\$[({]|^\{\{|\$\{\w[^{}]*\}|\{\{.*\}\}|\$\(\w[^()]*\)|#\{\w[^{}]*\}"
    rb"|^\$(?:[A-Z][A-Z0-9_]*|[a-z_][a-z0-9_]*|[a-z]+(?:[A-Z][a-z]+)*|\d)$|^%\w+%$|^__\w+__$|^@\w+@$|\$env:"
    rb"|^<[^<>]*>$|<(?:[a-z][a-z _-]+|[A-Z][A-Z _-]+)>|<%=|&lt;|%\(\w+\)|(?<!\w)%[sdr]\b"
    rb"|\{[A-Za-z_][\w.]{2,}(?:![rsa])?(?::[^{}]*)?\}|^\{\d*\}$"
)
_SPEAKING = (
    rb"pass|pwd|secret|token|key|user|cred|auth|param|field|input|value|config|setting|option|env|name|string"
    rb"|default|self|this|arg|request|response|result|data"
)
_ELSEWHERE = (
    rb"(?:arn|vault|ssm|op|kms|sm|env|file|ref):|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$|\w+\[[\w\[\], .|]*\]$"
    rb"|[\w./*-]*/(?:secrets|versions)/|[\w./=*-]+:latest$"
)
_CALLED = rb"(?i:private|public|secret|token|password|credential|config|provider)|Key|_key"
_TECHNICAL = (
    rb"(?:sha|md|base|utf|oauth|http|bcrypt|argon|aes|rsa|ed|hs|rs|es|ipv|v|p|x|pbkdf|saml|rfc|top)-?\d{1,4}"
    rb"[a-z]{0,6}(?:[-_][a-z]+\d*)*$"
)


#: How far a place is to be trusted: code and prose; `name=value` without blanks; quoted, flags; environment.
LOOSE, TIGHT, FIRM, SURE = 0, 1, 2, 3


@cache
def rx(pattern: bytes) -> re.Pattern[bytes]:
    """Return the pattern compiled, once, when it is first needed."""
    return re.compile(pattern)


def is_secret(value: bytes, kind: str, place: int, *, quoted: bool) -> bool:
    """Judge a value by the kind of name beside it and by the place it stands in."""
    if len(value) < 4 or value.lower() in WORDS or is_sample(value) or _is_reference(value, kind, place):
        return False
    firm = place > LOOSE
    if kind == "auth":
        return is_pair(value) or is_opaque(value, firm=True)
    if kind != "pass" and rx(rb"[\d.,]*").fullmatch(value):
        return firm and value.isdigit() and len(value) >= 20
    if b" " in value:
        return kind == "pass" and (place == SURE or (firm and _is_phrase(value)))
    told = value.isalpha() and rx(_SPEAKING).search(value.lower())
    if kind == "pass" and place >= FIRM:
        return place == SURE or not (quoted and value.isalpha() and value.istitle())  # `"password": "Passwort"`
    if kind in ("pass", "secret") and not told:
        return _is_guessable(value, (6 if kind == "pass" else 8) if firm else 99)
    return is_opaque(value, firm=firm)


def is_given(value: bytes) -> bool:
    """Say whether what stands in a password's own place is one, be it as weak as `pass`, or stands for one."""
    return bool(value) and not is_sample(value) and not (value.isupper() and rx(_SPEAKING).search(value.lower()))


def is_sample(value: bytes) -> bool:
    """Say whether a value only holds the place of a secret: documentation, templates, masks."""
    return bool(rx(_SAMPLE).search(value) or rx(_TEMPLATE).search(value))


def is_shown(value: bytes) -> bool:
    """Say whether a vendor's shape was filled for documentation: `AKIA…EXAMPLE`, `ghp_xxxxxxxx`."""
    return bool(rx(_SAMPLE).search(value))


def is_pair(text: bytes) -> bool:
    """Say whether the text is base64 of `user:password`, whatever these are."""
    from binascii import Error, a2b_base64

    try:
        plain = a2b_base64(text + b"=" * (-len(text) % 4))
    except Error:
        return False
    return b":" in plain and plain.isascii() and plain.decode().isprintable()


def is_opaque(value: bytes, *, firm: bool) -> bool:
    """Say whether a value looks made by a machine: letters, digits and cases mixed as no name mixes them."""
    if len(value) < 8 or rx(rb"[\s@]|\d{4}-\d\d-\d\d|https?:").search(value):
        return False
    core = rx(rb"[^A-Za-z0-9]+").sub(b"", value)
    if core.isdigit() or not core:
        return firm and len(core) >= 20
    groups = len(rx(rb"\d+").findall(core))
    if not groups:
        return (len(core) >= 16 and _is_jumbled(core)) or (firm and core == value and len(core) >= 24)
    if _is_wordy(value):
        return firm and core == value and bool(rx(rb"\d{2}").search(value))
    return groups >= 2 or firm or len(core) >= 16 or _is_jumbled(core)


def _is_reference(value: bytes, kind: str, place: int) -> bool:
    """Say whether a value names where the secret is: a variable, a path, an entry of a vault."""
    if b"://" in value or rx(_ELSEWHERE).match(value):
        return True
    if rx(rb"(?:~|\.{1,2})?/[\w.@/?*-]*$|[A-Za-z]:\\").match(value) and _is_wordy(value):
        return True
    if kind != "pass" and rx(rb"[\w.*-]+(?:/[\w.*-]+)+$").match(value) and _is_wordy(value):
        return True
    dotted = rx(rb"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+$").match(value)
    if dotted and rx(_CALLED).search(value):
        return True
    speaking = rx(_SPEAKING).search(value.lower())
    if place >= FIRM:
        words = rx(rb"[A-Za-z]+(?:[._-][A-Za-z]+)+$").match(value)
        return bool(words and (speaking or b"." in value))
    if rx(rb"[!@&*#%:~][\w.-]*$").match(value) or (dotted and _is_wordy(value)):
        return True
    return bool(speaking and rx(rb"[A-Za-z_$]+\d?$").match(value)) or bool(
        rx(rb"[A-Za-z_$][\w$]*$").match(value) and rx(_CALLED).search(value)
    )


def _is_wordy(value: bytes) -> bool:
    """Say whether every part of a value is a word, a short number, or a word with a short number."""
    parts = [part for part in rx(rb"[^A-Za-z0-9]+").split(value) if part]
    word = rx(rb"[A-Za-z]+\d{0,3}|\d{1,4}[A-Za-z]?")
    return all(len(part) < 24 and word.fullmatch(part) and not _is_jumbled(part) for part in parts)


def _is_jumbled(part: bytes) -> bool:
    """Say whether capitals come and go faster than in any camelCase name."""
    humps = len(rx(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])").findall(part))
    return len(part) >= 6 and humps > 2 and humps * 10 > len(part) * 3


def _is_guessable(value: bytes, letters: int) -> bool:
    """Say whether a value beside a password's name is one a person made up: `hunter2`, `pa$$word!`."""
    symbols = rx(rb"[^\w.:/@,+-]").search(value)
    if len(value) < 6 or rx(_TECHNICAL).match(value.lower()):
        return False
    if value.isalpha():
        return len(value) >= letters or _is_jumbled(value)
    if symbols or value.isalnum():
        return True
    return not _is_wordy(value) and (letters < 99 or bool(rx(rb"\d").search(value)))


def _is_phrase(value: bytes) -> bool:
    """Say whether several words make a passphrase rather than a label or a message."""
    words = value.lower().split()
    if len(words) > 12 or not WORDS.isdisjoint(words) or rx(_SPEAKING).search(value.lower()):
        return False
    plain = value.replace(b" ", b"").isalpha() and value.islower() and len(words) >= 4
    return plain or bool(rx(rb"\d").search(value) and rx(rb"[^\w\s.,:'()-]").search(value))
