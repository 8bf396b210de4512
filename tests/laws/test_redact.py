"""Laws of redaction: no secret survives, nothing else is touched, and twice is once."""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import redact_samples as samples
from laws.redact_lookalikes import lookalikes

from bede.redact import KINDS, redact, redact_value

MARK = re.compile(r"\[redacted:([a-z0-9-]+)\]")
TOKEN = samples.SHAPES["github classic"](samples.Dice(1))
SEEDS = (1, 2, 3)


def hidden(text: str) -> list[str]:
    """Return the kinds that were hidden in a text."""
    return MARK.findall(redact(text))


def survivors(found: Iterator[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return the samples whose secret is still there, or was not marked."""
    return [
        (kind, text, out)
        for kind, secret, text in found
        for out in [redact(text)]
        if secret in out or not MARK.search(out)
    ]


# --- recall ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_credential_of_known_shape_is_hidden_in_any_text(seed: int) -> None:
    assert survivors(samples.shaped(seed)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_value_beside_a_key_like_name_is_hidden_however_it_is_written(seed: int) -> None:
    assert survivors(samples.named(seed)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_what_stands_in_a_credentials_place_is_hidden(seed: int) -> None:
    assert survivors(samples.placed(seed)) == []


def test_no_line_of_a_private_key_survives() -> None:
    left = [
        (kind, redact(text))
        for kind, lines, text in samples.private_keys(1)
        if any(line in redact(text) for line in lines)
    ]
    assert left == []


def test_the_samples_are_many() -> None:
    found = [*samples.shaped(1), *samples.named(1), *samples.placed(1)]
    assert len({text for _, _, text in found}) >= 1_500
    assert len(samples.SHAPES) >= 120


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ("aws key id", "aws-access-key"),
        ("github fine grained", "github-token"),
        ("gitlab personal", "gitlab-token"),
        ("slack bot", "slack-token"),
        ("anthropic", "anthropic-key"),
        ("openai project", "openai-key"),
        ("google api key", "google-api-key"),
        ("stripe live", "stripe-key"),
        ("npm", "npm-token"),
        ("pypi", "pypi-token"),
        ("sendgrid", "sendgrid-key"),
        ("telegram", "telegram-token"),
        ("jwt", "jwt"),
        ("hugging face", "huggingface-token"),
        ("vault", "vault-token"),
    ],
)
def test_the_marker_names_the_kind(shape: str, kind: str) -> None:
    assert redact(f"see {samples.SHAPES[shape](samples.Dice(7))} there") == f"see [redacted:{kind}] there"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres://user:p%40ss@host/db", "postgres://user:[redacted:url-password]@host/db"),
        ("postgres://user:p@ss:w/rd@host:5432/db", "postgres://user:[redacted:url-password]@host:5432/db"),
        ("postgres:/user:hunter2@host/db", "postgres:/user:[redacted:url-password]@host/db"),
        ("C:/a:b@c and src/x.py:/a:b@c", "C:/a:b@c and src/x.py:/a:b@c"),
        ("password=V2BMGzOKjcAzdr", "password=[redacted:password]"),
        ("password=sha256sum", "password=sha256sum"),
        ("ghp_mLnSmM6uXgTodocGz2hCROFFeV4YNHpRmgZq", "[redacted:github-token]"),
        ("--eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.aB3dE5gH7jK9", "--[redacted:jwt]"),
        ("redis://:hunter2@cache:6379/0", "redis://:[redacted:url-password]@cache:6379/0"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:basic-auth]"),
        ("curl -u me:hunter2 https://h.dev", "curl -u me:[redacted:command-password] https://h.dev"),
        ("mysql -psecret app", "mysql -p[redacted:command-password] app"),
        ('{"password": "hunter2", "a": 1}', '{"password": "[redacted:password]", "a": 1}'),
        (r"{\"password\":\"hunter2\"}", r"{\"password\":\"[redacted:password]\"}"),
        (r'{"password": "hun\"ter2"}', '{"password": "[redacted:password]"}'),
        ("DB_PASSWORD=p@ss;w0rd(1)\nNEXT=1", "DB_PASSWORD=[redacted:env-secret]\nNEXT=1"),
        ("Server=h;Password=hunter2;Timeout=3", "Server=h;Password=[redacted:password];Timeout=3"),
        ("https://h.dev/?api_key=a1b2c3d4e5f6&page=2", "https://h.dev/?api_key=[redacted:api-key]&page=2"),
        ("machine h login me password hunter2\n", "machine h login me password [redacted:password]\n"),
        ("the password is hunter2, keep it", "the password is [redacted:password], keep it"),
        ("- name: DB_PASSWORD\n  value: hunter2\n", "- name: DB_PASSWORD\n  value: [redacted:password]\n"),
    ],
)
def test_only_the_secret_goes(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_what_stands_around_a_credential_stays() -> None:
    for carrier in samples.CARRIERS:
        assert MARK.sub("@", redact(carrier.replace("@", TOKEN))) == carrier


# --- precision -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_what_only_looks_like_a_secret_stays_and_is_the_same_object(seed: int) -> None:
    texts = lookalikes(seed)
    assert len(texts) >= 1_000
    assert [(text, redact(text)) for text in texts if redact(text) is not text] == []


def test_lookalikes_stay_side_by_side() -> None:
    text = "\n".join(lookalikes(4, each=2))
    assert redact(text).splitlines() == text.splitlines()


# --- twice is once ---------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *samples.split(
            "password ¦ token ¦ api_key ¦ DB_PASSWORD ¦ auth ¦ Authorization ¦ Bearer ¦ Basic ¦ = ¦ : ¦ ; ¦ & ¦ ?"
        ),
        *samples.split(
            "@ ¦ :// ¦ / ¦ u: ¦ @tcp( ¦ mysql -p ¦ --token= ¦ <password> ¦ </password> ¦ { ¦ } ¦ ( ¦ ) ¦ [ ¦ ] ¦ , ¦ |"
        ),
        *samples.split(
            "login x password ¦ value ¦ name ¦ &sig= ¦ is ¦ to ¦ key ¦ - ¦ _ ¦ . ¦ + ¦ ~ ¦ % ¦ $ ¦ a ¦ 1 ¦ 登 ¦ hunter2"
        ),
        *samples.split(
            "[redacted:password] ¦ [redacted:nothing] ¦ private key ¦ identified by ¦ pwd ¦ dXNlcjpodW50ZXIy ¦ xxxxxxxx"
        ),
        *('"', "'", '\\"', '\\\\\\"', "\\n", "\n", " ", "\u200b", "\x1b[31m", "\0", "\ud800", TOKEN),
        *(make(samples.Dice(5)) for make in samples.SHAPES.values()),
        "-----BEGIN PRIVATE" + " KEY-----\n" + "A1b2" * 16 + "\n",
        "-----END PRIVATE" + " KEY-----",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact(text)
    assert redact(once) is once


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_taken_and_only_loses_characters(text: str) -> None:
    rest = iter(text)
    assert all(char in rest for char in MARK.sub("", redact(text)))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.sampled_from(sorted(samples.SHAPES)), st.integers(0, 99), st.text(max_size=40))
def test_a_credential_between_blanks_never_survives(before: str, shape: str, seed: int, after: str) -> None:
    secret = samples.SHAPES[shape](samples.Dice(seed))
    assert secret not in redact(f"{before} {secret} {after}")


def test_every_sample_is_done_in_one_go() -> None:
    for _, _, text in (*samples.shaped(9, carriers_each=2), *samples.placed(9)):
        assert redact(redact(text)) == redact(text)


# --- disguises -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gap", ["\u200b", "\u200d", "\u2060", "\ufeff", "\u202e", "\xad", "\0", "\x1b[1;31m", "\u200b\u200c"]
)
def test_what_cannot_be_seen_does_not_split_a_secret(gap: str) -> None:
    split = gap.join((TOKEN[:2], TOKEN[2:9], TOKEN[9:]))
    assert redact(f"a {gap}{split} b") == f"a {gap}[redacted:github-token] b"


@pytest.mark.parametrize("gap", ["\u200b", "\0", "\x1b[1;31m", "\u200b\u200c"])
def test_a_secret_is_found_behind_any_number_of_gaps(gap: str) -> None:
    """Where each character stands is not written down: that would take forty times what the text takes."""
    split = gap.join((TOKEN[:2], TOKEN[2:9], TOKEN[9:]))
    before, between, after = f"{gap}word " * 50_000, f" {gap} and{gap} " * 3, f"{gap} word" * 50_000
    text, safe = (before + secret + between + secret + after for secret in (split, "[redacted:github-token]"))
    tracemalloc.start()
    assert redact(text) == safe
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * len(text.replace(gap, ""))


@pytest.mark.parametrize(
    "text", [f"[redacted:{TOKEN}]", f"[redacted:password {TOKEN}]", f"[redacted:{TOKEN.lower()}x]{TOKEN} "]
)
def test_a_false_marker_shields_nothing(text: str) -> None:
    assert TOKEN not in redact(text)


def test_wide_signs_are_signs() -> None:
    assert redact("password：hunter2") == "password：[redacted:password]"
    assert redact("password=“hunter2”") == "password=“[redacted:password]”"


@pytest.mark.parametrize(
    "escape", ["\\n", "\\t", "\\x3d", "\\u0022", "%22", "%3D", "=3D", "\\u001b[1;32m", "\\033[0m", "^[[38;5;196m"]
)
def test_an_escape_before_a_credential_is_no_part_of_it(escape: str) -> None:
    assert redact(f"x{escape}{TOKEN}") == f"x{escape}[redacted:github-token]"


@pytest.mark.parametrize("before", ["-p", "-u", "--set-p", "1", "x", "é1", "a.b-c", "HEAD~1x"])
def test_a_letter_before_a_peculiar_beginning_hides_nothing(before: str) -> None:
    assert redact(f"run {before}{TOKEN} x") == f"run {before}[redacted:github-token] x"


def test_an_option_and_its_value_may_be_one_word() -> None:
    for kind, text in (("aws-access-key", "AKIA" + "Z7QK" * 4), ("anthropic-key", "sk-ant-api03-" + "aB1_" * 8)):
        assert redact(f"tool -k{text} x") == f"tool -k[redacted:{kind}] x"


# --- hostile length --------------------------------------------------------------------------------------

LONG = 60_000
BLANK = (
    "x",
    " ",
    "\n",
    "\\",
    '"',
    "a-",
    "://",
    "://a:",
    "eyJ",
    "eyJabcdefgh-",
    "-sk-ant-",
    "gh" + "p_",
    "pass",
    "key=",
)
SPARE = (
    "token is ",
    "[redacted:",
    "\x1b[",
    "a\u200b",
    "\0",
    "登录",
    "mysql -p ",
    "curl -u ",
    "login ",
    "cred",
    'auth=("a","',
    "password(",
)
HOSTILE = (
    'password="',
    'password=\\"',
    "password=a1b2;",
    "://u:hunter2@h ",
    "a:b1@tcp(",
    "--password a1b2c3 ",
    "identified by 'a1b2c3' ",
    "eyJabcdefgh.",
)


@pytest.mark.parametrize("piece", BLANK + SPARE)
def test_long_text_without_a_secret_comes_back_whole(piece: str) -> None:
    text = piece * (LONG // len(piece))
    assert redact(text) is text


@pytest.mark.parametrize("piece", HOSTILE)
def test_long_text_of_secrets_settles(piece: str) -> None:
    once = redact(piece * (LONG // len(piece)))
    assert "[redacted:" in once
    assert redact(once) is once


@pytest.mark.parametrize("end", ["", "\n-----END RSA PRIVATE" + " KEY-----"])
def test_a_key_is_hidden_however_long(end: str) -> None:
    text = "-----BEGIN RSA PRIVATE" + " KEY-----\n" + ("A1b2" * 16 + "\n") * 3_000 + end
    assert redact(text).strip() == "[redacted:private-key]"


# --- values ----------------------------------------------------------------------------------------------


def test_a_value_without_secrets_is_the_same_object() -> None:
    value = {"a": [1, None, True, 2.5, "text", {"token_count": 3}], "b": ("x", {"c": []})}
    assert redact_value(value) is value


def test_a_field_is_judged_by_its_name_and_the_rest_is_kept() -> None:
    clean = {"n": [1, 2]}
    value = {"user": "me", "password": "hunter2", "deep": [{"apiKey": "a1b2c3d4e5"}, clean], "max_tokens": "4096"}
    before = repr(value)
    out = redact_value(value)
    assert out == {
        "user": "me",
        "password": "[redacted:password]",
        "deep": [{"apiKey": "[redacted:api-key]"}, clean],
        "max_tokens": "4096",
    }
    assert repr(value) == before
    assert isinstance(out, dict)
    assert out["deep"][1] is clean


@pytest.mark.parametrize(
    "word", ["string", "changeme", "<password>", "${PASSWORD}", "", "****", "process.env.DB_PASSWORD"]
)
def test_a_field_that_holds_no_secret_stays(word: str) -> None:
    value = {"password": word}
    assert redact_value(value) is value


def test_names_stand_in_other_fields_and_flags_before_their_arguments() -> None:
    assert redact_value({"name": "DB_PASSWORD", "value": "hunter2"}) == {
        "name": "DB_PASSWORD",
        "value": "[redacted:password]",
    }
    assert redact_value(["tool", "--password", "hunter2", "x"]) == ["tool", "--password", "[redacted:password]", "x"]
    assert redact_value(("a", TOKEN)) == ("a", "[redacted:github-token]")


def test_keys_are_redacted_and_stay_apart() -> None:
    other = samples.SHAPES["github classic"](samples.Dice(2))
    out = redact_value({TOKEN: 1, other: 2, "x": 3})
    assert out == {"[redacted:github-token]": 1, "[redacted:github-token]+1": 2, "x": 3}
    assert redact_value(out) is out


def test_depth_does_not_matter_and_shared_parts_are_done_everywhere() -> None:
    deep: object = TOKEN
    for _ in range(20_000):
        deep = [deep]
    out = redact_value(deep)
    for _ in range(20_000):
        assert isinstance(out, list)
        (out,) = out
    assert out == "[redacted:github-token]"
    shared = {"token": TOKEN}
    assert redact_value([shared, {"x": [shared]}]) == [
        {"token": "[redacted:github-token]"},
        {"x": [{"token": "[redacted:github-token]"}]},
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | PIECES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PIECES, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(JSON)
@example({TOKEN: "dXNlcjpodW50ZXIy"})
@example({"password " + TOKEN: "hunter2sun", TOKEN: "a", TOKEN[:-1] + "x": "dXNlcjpodW50ZXIy"})
@example(["--token=" + TOKEN, "dXNlcjpodW50ZXIy"])
@example([{"name": TOKEN, "value": "dXNlcjpodW50ZXIy"}])
def test_a_value_redacted_twice_is_the_same_object(value: object) -> None:
    once = redact_value(value)
    assert redact_value(once) is once
    assert TOKEN not in repr(once)


# --- the room itself -------------------------------------------------------------------------------------


def test_every_marker_is_of_a_declared_kind() -> None:
    texts = [text for _, _, text in (*samples.shaped(3), *samples.named(3), *samples.placed(3))]
    assert {kind for text in texts for kind in hidden(text)} <= set(KINDS)
    assert list(KINDS) == sorted(set(KINDS))
    assert all(re.fullmatch(r"[a-z0-9-]{2,32}", kind) for kind in KINDS)


def test_importing_compiles_nothing_and_ordinary_text_neither() -> None:
    program = (
        "import re, sys; known = set(sys.modules)\n"
        "from bede.redact import redact, values\n"
        "redact('The team met on Monday and fixed the parser: 12 tests ran in/a_rather_long_file_name.py too.')\n"
        "assert values.rx.cache_info().currsize == 0\n"
        "print(*sorted(m for m in set(sys.modules) - known if not m.startswith('bede')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert set(done.stdout.split()) <= {"__future__", "collections.abc"}
