r"""Values that stand beside key-like names.

`DB_PASSWORD=…`, `"client_secret": "…"`, `api_key: '…'`, `--token …`, `<password>…</password>`, a table's cell, a
`.netrc` line; also inside JSON that is escaped inside JSON. The name says what kind of value to expect, the
way it is written says how far to trust the place, and only then is the value judged. Names that speak about
a secret (`token_count`, `password_file`, `secretName`, `max_tokens`) are not names of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from bede.redact.places import Span, credential
from bede.redact.values import FIRM, LOOSE, SURE, TIGHT, is_given, is_pair, is_secret, rx

_SAID = {"pass": "password", "secret": "secret", "token": "token", "key": "api-key", "cred": "secret"}
KINDS = frozenset((*_SAID.values(), "env-secret", "aws-secret-key", "azure-storage-key", "basic-auth", "authorization"))

_LONGEST = 64  # of a name
_WINDOW = 4096  # of a quoted value
_STEMS = (
    (b"pass", "pass"),
    (b"pwd", "pass"),
    (b"secret", "secret"),
    (b"token", "token"),
    (b"key", "key"),
    (b"cred", "cred"),
    (b"auth", "auth"),
    (b"identified by", "pass"),
)
_OWNERS = (b"db", b"user", b"my", b"root", b"admin", b"sudo", b"mysql", b"pg", b"redis", b"smtp", b"mail", b"ftp")
_BEFORE_AUTH = (b"basic", b"proxy", b"digest", b"http", b"x", b"set")
_KEYED = tuple(
    b"""api app application access secret private account shared encryption encrypt enc signing sign master auth
    service client consumer license licence storage deploy webhook subscription hmac jwt aes rsa ssh pgp gpg
    session admin integration server functions function host crypto ingest write bot cookie vault cipher salt
    openai anthropic claude gemini google gcp stripe sendgrid mailgun twilio datadog dd github gitlab aws azure
    cloudflare cf algolia maps mapbox heroku hf huggingface groq mistral cohere pinecone supabase firebase sentry
    newrelic honeycomb segment rollbar postmark airtable notion linear slack discord telegram fcm apns okta
    openrouter perplexity replicate together deepseek elevenlabs tavily langsmith weather bearer
    wandb nonce logged_in project""".split()
)
_OPENS_NOTHING = frozenset(
    b"""primary foreign public cache sort partition idempotency routing object index hash map lookup unique row range
    group order field column event message s3 file translation label feature flag dedup shift any press""".split()
)
_COUNTED = frozenset(
    b"""page continuation sync cursor cancellation cancel pad eos bos unk mask sep cls stop special start end max min
    num total input output prompt completion cached per fencing fence lease idempotency resume position request
    sequence client clientrequest change action starting publickey""".split()
)
_ABOUT = tuple(
    b"""id name file path dir folder url uri type len size count limit min max ttl expir age polic hash digest
    field label hint prompt regex pattern enabl disabl requir manager client provider store usage budget window
    index version header param algo format endpoint status iz stdin ring board vault smanager arn ref ary ion ly ive
    strength change check valid reset class method func generat rotat prefix suffix source scope target config verif
    state mode kind template last zero plugin helper backend engine view page form input button screen dialog error
    exception model servic filter handler cert used left remain less""".split()
)
_SUFFIXES = frozenset(b"py js ts tsx jsx go rs rb java md txt yml yaml json toml html css sh".split())
_FOLLOWERS = frozenset((*(bytes((c,)) for c in b"=:\"'`\\>],([|?!+\n\r"),))
_ENDS = _FOLLOWERS | {b" ", b"\t", b"*"}
_SAYING = (b"is ", b"was ", b"to ", b"by ", b"string ")
_SCHEMES = frozenset(
    b"basic bearer token apikey api-key key bot oauth digest negotiate ntlm splunk geniekey jwt ssws hmac snyk".split()
)

_HEAD = rb"""(?x)
  (?P<typed> [ \t]string[ \t]*=[ \t]*(?=["'`]) | \??[ \t]*:[ \t]*[&*A-Za-z_][\w.\[\]<>?|&* ]{0,40}=[ \t]*(?=["'`]) )
| (?P<block> (?:\\{0,8}["'])?[ \t]*:[ \t]*[|>][+-]?[ \t]*\r?\n[ \t]+ )
| (?P<field> (?:\\{0,8}["'])?[ \t]*[,;]?\s{0,24}(?:\\{0,8}["'])?\b[Vv]alue(?:\\{0,8}["'])?[ \t]*[:=][ \t]* )
| (?P<assign> (?:\\{0,8}["'`])?\]?\*{0,2}[ \t]*(?:\[[^\]\n]{0,24}\])?
    (?::=|=>|[=!]==?|[|?+]{1,2}=|=|:(?!:))\*{0,2}(?:\s{0,80}(?=\\{0,8}["'`])|[ \t]*)(?:!!?[a-z]{1,16}[ \t]+)? )
| (?P<pair> \\{0,8}["'`][ \t]*,\s{0,24}(?=[fru]?\\{0,8}["'`]) )
| (?P<xml> > )
| (?P<call> \([ \t]*(?=[fru]?\\{0,8}["'`]) )
| (?P<cell> [`*]{0,2}[ \t]*\|[ \t]* )
| (?P<prose> ["'`]?[ \t]+(?i:is|was|to|by(?=[ \t]["']))(?:[ \t]+(?:now|still|set|reset|changed))?(?:[ \t]+to)?\b
    [ \t]*:?[ \t]* )
| (?P<gap> [ \t]+(?:\\\r?\n[ \t]*)? )
"""
_OPEN = rb"[bfru]{0,2}(\\{0,8})(\"\"\"|'''|[\"'`])"
_BARE = (
    rb"(?:[^\s\"'`;&,<>(){}\[\]\\|\0]"
    rb"|[;&,](?!\s|\Z|[\"'`\\;&,\0]|[\w.% -]{1,40}=|#?\w{2,6};)"
    rb"|\\(?![nrtu\"'`\\\s]))+"
)
_INNER = rb"''|'\\\\''|'\"'\"'"  # how YAML and shells write a quote between quotes
_PAIR_END = rb"\\{0,8}[\"'`]\s{0,4}[)\]]"
_WHOLE = rb"(?![\"'`])(?:[^\s\\\0]|\\(?![nrt\"']))+(?=\s|\Z|\\[nr])"
_USER_PAIR = rb"\(?\s{0,8}[\"'][^\"'\n\0]{1,64}[\"']\s{0,8},\s{0,8}[\"']([^\"'\n\0]{2,128})[\"']\s{0,8}\)"
_SCHEME = rb"[fbru]{0,2}(?:\\{0,8}[\"'`])?(?:([A-Za-z][\w-]{1,24})[ \t]+)?+"


def named(needle: bytes, raw: bytes, low: bytes, shape: bytes) -> Iterator[Span]:
    """Yield the secrets beside names that hold the needle."""
    at = low.find(needle)
    while at >= 0:
        end = shape.find(b" ", at + len(needle), at + _LONGEST)
        end = end if end >= 0 else min(at + _LONGEST, len(raw))
        span = _beside(raw, low, shape, at, end) if low[end : end + 1] in _ENDS else None
        if span:
            yield span
        at = low.find(needle, max(end, span[1] if span else 0))


def judge(name: bytes, value: bytes) -> str:
    """Return the kind of secret that the value of a field is, or nothing."""
    stem = _class(name.lower().replace(b" ", b"_"))
    if not stem or b"\n" in value or b"\0" in value or not is_secret(value, stem, FIRM, quoted=True):
        return ""
    return _kind(name, stem, env=False)


def _beside(raw: bytes, low: bytes, shape: bytes, at: int, end: int) -> Span | None:
    """Return the secret beside the name that ends here and has its stem there, if it is the name of one."""
    start = max(0, at - _LONGEST, shape.rfind(b" ", max(0, at - _LONGEST), at) + 1)
    if raw[start - 1 : start] == b"\\" and start < at:
        start += 1  # the `n` of an escaped line end
    follow = low[end : end + 8].lstrip(b" \t*_")
    spaced = raw[start : start + 1] == b"-" or (follow[:1] not in _FOLLOWERS and _is_spaced(raw, low, start, end))
    if not spaced and follow[:1] not in _FOLLOWERS and not follow.startswith(_SAYING):
        return None
    if raw[start - 2 : start] == b"::" or raw[start - 1 : start] == b":" == raw[end : end + 1]:
        return None  # `AWS::IAM::AccessKey`, `arn:…:secret:…`: the name of a thing
    name = low[start:end]
    if name.startswith(b"key") and raw[start - 1 : start] == b" ":  # `API key: …`
        name = low[shape.rfind(b" ", max(0, start - 16), start - 1) + 1 : end].replace(b" ", b"_")
    stem = _class(name) or ("key" if raw[start:end].isupper() and _is_foreign(name) else "")
    head = rx(_HEAD).match(raw, end) if stem and raw[start - 1 : start] != b"\0" else None
    if not head or not _is_fitting(raw, start, name, head, spaced):
        return None
    if stem == "auth":
        return _authorization(raw, name, head)
    return _value(raw, start, end, head, stem)


def _is_spaced(raw: bytes, low: bytes, start: int, end: int) -> bool:
    """Say whether a blank alone may part this name from its value: `.netrc`, `ENV NAME value`."""
    before = low[max(0, start - 80) : start]
    if low[start:end] == b"password":
        return b"login" in before and bool(rx(rb"\blogin\s+\S+\s+$").search(before))
    return raw[start:end].isupper() and before.rstrip().endswith((b"env", b"setx", b"setenv", b" -gx", b" -x"))


def _is_fitting(raw: bytes, start: int, name: bytes, head: re.Match[bytes], spaced: bool) -> bool:
    """Say whether this way of writing makes what follows the value of the name."""
    style = head.lastgroup
    verb = style in ("gap", "call", "prose", "pair") and name.endswith(b"pass") and name[:1] != b"-"
    if verb and not raw[start : head.start()].isupper():
        return False  # `pass ("…")`, `pass it to …`
    if style == "gap":
        return spaced or raw[head.end() : head.end() + 1] in (b'"', b"'")
    if style == "xml":
        return raw[start - 1 : start] == b"<"
    if style == "pair":  # a flag and its argument, or two arguments of a call, not entries of a list
        return name[:1] == b"-" or bool(rx(rb"[(\[][bfru]?\\{0,8}[\"'`]$").search(raw[max(0, start - 12) : start]))
    if style == "call":
        last = name.rpartition(b".")[2]
        setter = len(last) < len(name) or last.startswith((b"set", b"with", b"add")) or last.endswith(b"auth")
        return setter and b"get" not in last and bool(_class(last))
    return True


def _value(raw: bytes, start: int, end: int, head: re.Match[bytes], stem: str) -> Span | None:
    env = head.lastgroup == "assign" and raw[start:end].isupper() and raw[end : end + 1] in (b"=", b":")
    exact = env and raw[end : end + 1] == b"=" and raw[end + 1 : end + 2] in (b"=", b">")
    begin = end + 1 if exact else head.end()  # `PASSWORD==x`: in an environment only the first sign is one
    opened = rx(_OPEN).match(raw, begin)
    first = opened.end() if opened else begin
    last = _closing(raw, first, len(opened[1]), opened[2]) if opened else -1
    value = raw[first:last] if last >= 0 else _bare(raw, first, start, env)
    last = first + len(value)
    quoted = bool(opened) and raw[last : last + 1] in (b"\\", b'"', b"'", b"`")
    if not value or b"\0" in value or (not quoted and _is_code(raw, value, last, head, env)):
        return None
    place = _place(raw, start, last, head, quoted=quoted, env=env)
    told = raw[start - 1 : start] == b";" or (head.lastgroup == "gap" and (raw[start:end].isupper() or not quoted))
    told = told and stem == "pass" and place >= FIRM and raw[start : start + 1] != b"-"
    if place < LOOSE or not (is_secret(value, stem, place, quoted=quoted) or (told and is_given(value))):
        return None
    return first, last, _kind(raw[start:end], stem, env=env)


def _place(raw: bytes, start: int, last: int, head: re.Match[bytes], *, quoted: bool, env: bool) -> int:
    """Say how far the place of a value is to be trusted; below `LOOSE` it is no place of a value at all."""
    style, flag = head.lastgroup, raw[start : start + 1] == b"-"
    if style == "xml" and raw[last : last + 2] != b"</":
        return -1
    if style == "pair" and not flag:
        return LOOSE if rx(_PAIR_END).match(raw, last) else -1
    if style == "gap" and not quoted and rx(rb"[A-Za-z]+[ ]+[a-z]{1,12}[\s.,]").match(raw, head.end()):
        return -1  # `--password prompts the user`
    if style in ("call", "cell", "prose"):
        return LOOSE
    if env:
        return SURE
    if quoted or flag or style in ("xml", "field", "gap", "block"):
        return FIRM
    alone = rx(rb"[;&]|[\"'`\\]|[ \t]*(?:\r?\n|\Z)|[ \t]+#").match(raw, last)
    if alone and raw[head.end() - 1 : head.end()] == b"=":
        return FIRM if raw[start - 1 : start] == b";" else TIGHT
    before = raw[max(0, start - 24) : start]
    return TIGHT if alone and not before.rpartition(b"\n")[2].strip(b" -") and last - head.end() >= 8 else LOOSE


def _closing(raw: bytes, at: int, depth: int, quote: bytes) -> int:
    """Return where a quoted value ends, given how many backslashes stood before its opening quote."""
    stop = raw.find(b"\n", at, at + _WINDOW)
    stop = stop if stop >= 0 else at + _WINDOW
    close = first = raw.find(quote, at, stop)
    while close >= 0:
        before = raw[max(at, close - 16) : close]
        slashes = len(before) - len(before.rstrip(b"\\"))
        if depth and slashes <= depth:
            return close - slashes
        inner = rx(_INNER).match(raw, close) if quote == b"'" else None
        if not depth and slashes % 2 == 0 and not inner:
            return close
        close = raw.find(quote, inner.end() if inner else close + 1, stop)
    return first


def _bare(raw: bytes, at: int, start: int, env: bool) -> bytes:
    """Return an unquoted value; on an environment line of its own that is everything up to the blank."""
    alone = env and (raw[start - 1 : start] in (b"", b"\n") or raw[start - 7 : start] == b"export ")
    value = (rx(_WHOLE).match(raw, at) if alone else None) or rx(_BARE).match(raw, at)
    return value[0].rstrip(b".,:;?*") if value else b""


def _is_code(raw: bytes, value: bytes, end: int, head: re.Match[bytes], env: bool) -> bool:
    """Say whether an unquoted value only begins an expression or a template, or touches a marker."""
    after = raw[end : end + 1]
    if after in (b"{", b"\0") or (after in (b"(", b"[") and not env) or (value[:1] == b"\\" and not env):
        return True
    if head.lastgroup == "gap" and value[:1] == b"-":
        return True
    if after == b">" and value[-1:] == b"-":  # `$self->…`
        return True
    operator = b"" if env else head[0].strip(b" \t\"'`*]\\")
    return head.lastgroup == "assign" and operator in (b"==", b"!=", b"===", b"!==", b"=>", b"||=", b"??=")


def _authorization(raw: bytes, name: bytes, head: re.Match[bytes]) -> Span | None:
    if head.lastgroup in ("assign", "call"):
        pair = rx(_USER_PAIR).match(raw, head.end() - (head.lastgroup == "call"))
        if pair:
            return (*pair.span(1), "basic-auth") if is_given(pair[1]) else None
    value = rx(_SCHEME).match(raw, head.end())
    if not value or raw.startswith(b"Credential=", value.end()):
        return None
    scheme = (value[1] or b"").lower()
    text = rx(rb"[A-Za-z0-9+/=]*").match(raw, value.end())
    if not scheme and text and not name.endswith(b"authorization") and is_pair(text[0]):
        scheme = b"basic"
    return next(credential(raw, value.end(), scheme if scheme in _SCHEMES else b"", sure=True), None)


@lru_cache(4096)
def _class(name: bytes) -> str:
    for stem, group in _STEMS:
        at = name.rfind(stem)
        if at >= 0 and _fits(group, name[:at], name[at + len(stem) :]):
            return group
    return ""


def _is_foreign(name: bytes) -> bool:
    """Say whether an environment's `SOMETHING_KEY` may be the key to a service that is not known here."""
    before, _, last = name.rpartition(b"_")
    return last == b"key" and before.rpartition(b"_")[2] not in _OPENS_NOTHING


def _fits(group: str, before: bytes, after: bytes) -> bool:
    """Say whether what stands around a stem leaves it the name of a secret, not of something about one."""
    if group == "auth":
        return after in (b"", b"orization") and (not before[-1:].isalnum() or before.endswith(_BEFORE_AUTH))
    before = before.rstrip(b"_.-")
    rest = rx(rb"^(?:words?|phrase|code|wd|wort|entials?)").sub(b"", after)
    if group in ("pass", "cred") and rest == after:
        if after not in (b"", b"s") and not (group == "pass" and after.lstrip(b"_-").isdigit()):
            return False  # passed, passport, pass_zero, credit
        if before[-1:].isalpha() and not before.endswith(_OWNERS):
            return False  # bypass, compass
    if group == "key" and not before.endswith(_KEYED):
        return False
    if group == "token" and (before.startswith(b"next") or rx(rb"[_.-]").split(before)[-1] in _COUNTED):
        return False
    if group == "cred" and before.endswith((b"amz", b"goog")):
        return False  # a signed link's scope, which names who signed
    if group == "secret" and rest.strip(b"_-") == b"id":
        return True  # half of a vault's login
    rest = rest[1:] if rest[:1] == b"s" and not rest[1:2].isalpha() else rest
    parts = [part for part in rx(rb"[_.-]+").split(rest) if part]
    return not any(part.startswith(_ABOUT) or part in _SUFFIXES for part in parts)


def _kind(name: bytes, stem: str, *, env: bool) -> str:
    plain = name.lower().translate(None, b"_- ")
    if b"secretaccesskey" in plain or (b"aws" in plain and b"secret" in plain):
        return "aws-secret-key"
    if plain.endswith(b"accountkey"):
        return "azure-storage-key"
    return "env-secret" if env else _SAID.get(stem, "authorization")
