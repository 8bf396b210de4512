"""What secrets look like, and the texts that hold them: generated, so that no line here is one.

Every credential is put together from pieces when it is asked for, from a seeded source of chance; nothing in
this file has the shape of a secret. A sample is the secret itself and a text that holds it.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable, Iterator

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
WORD = string.ascii_letters + DIGITS
HEX = DIGITS + "abcdef"
URLSAFE = WORD + "-_"
BASE32 = UPPER + "234567"


def split(block: str) -> tuple[str, ...]:
    """Return the samples of a block, in which `¦` parts them and ⏎, ␍, ␛ stand for what cannot be seen."""
    plain = block.strip().replace("\n", " ¦ ").replace("⏎", "\n").replace("␍", "\r").replace("␛", "\x1b")
    return tuple(plain.split(" ¦ "))


class Dice:
    """A seeded source of random text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, length: int, alphabet: str = WORD) -> str:
        """Return random text that ends in a word character, and is mixed if its alphabet is."""
        mixed = length > 3 and any(c.isdigit() for c in alphabet) and any(c.isalpha() for c in alphabet)
        while True:
            made = "".join(self.random.choice(alphabet) for _ in range(length))
            varied = any(c.isdigit() for c in made) and any(c.isalpha() for c in made)
            if made[-1].isalnum() and (varied or not mixed):
                return made

    def uuid(self) -> str:
        return "-".join(self.text(n, HEX) for n in (8, 4, 4, 4, 12))

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def encoded(self, length: int) -> str:
        return base64.b64encode(self.random.randbytes(length)).decode()

    def password(self) -> str:
        """Return what people make up: a word with digits, symbols in the middle, or noise."""
        word = self.pick("hunter", "Tr0ub4dor", "dragon", "Sommer", "blueMoon", "qwerty", "letmein", "Zebra")
        return self.pick(
            f"{word}{self.random.randint(10, 9999)}",
            f"{word}!{self.random.randint(10, 99)}#{self.text(2, LOWER)}",
            f"{self.text(5)}-{self.text(6)}",
            self.text(12),
            f"{self.text(6)}@{self.text(4)}!{self.text(3)}",
            f"p${self.text(4, LOWER + DIGITS)}^{word}9",
        )


Maker = Callable[[Dice], str]


def _made(*pieces: str | tuple[int, str]) -> Maker:
    return lambda dice: "".join(p if isinstance(p, str) else dice.text(*p) for p in pieces)


#: Credentials with a shape of their own: what it is, and how one is made.
SHAPES: dict[str, Maker] = {
    "aws key id": _made("AK", "IA", (16, BASE32)),
    "aws temporary key id": _made("AS", "IA", (16, BASE32)),
    "aws bedrock": lambda d: "AB" + "SK" + d.encoded(96),
    "github classic": _made("gh", "p_", (36, WORD)),
    "github oauth": _made("gh", "o_", (36, WORD)),
    "github user": _made("gh", "u_", (36, WORD)),
    "github server": _made("gh", "s_", (36, WORD)),
    "github refresh": _made("gh", "r_", (76, WORD)),
    "github fine grained": _made("github", "_pat_", (22, WORD), "_", (59, WORD)),
    "gitlab personal": _made("gl", "pat-", (20, URLSAFE)),
    "gitlab routable": _made("gl", "pat-", (27, URLSAFE), ".", "0", "1.", (9, LOWER + DIGITS)),
    "gitlab deploy": _made("gl", "dt-", (20, URLSAFE)),
    "gitlab runner": _made("gl", "rt-", (20, URLSAFE)),
    "gitlab trigger": _made("gl", "ptt-", (40, HEX)),
    "gitlab feed": _made("gl", "ft-", (20, URLSAFE)),
    "gitlab agent": _made("gl", "agent-", (50, URLSAFE)),
    "gitlab job": _made("gl", "cbt-", (2, HEX), "_", (20, URLSAFE)),
    "gitlab registration": _made("GR", "1348941", (20, URLSAFE)),
    "bitbucket app": _made("AT", "BB", (32, WORD)),
    "atlassian": _made("ATA", "TT3x", (180, URLSAFE), "=", (8, HEX)),
    "slack bot": _made("xo", "xb-", (12, DIGITS), "-", (12, DIGITS), "-", (24, WORD)),
    "slack user": _made("xo", "xp-", (12, DIGITS), "-", (12, DIGITS), "-", (13, DIGITS), "-", (32, HEX)),
    "slack app": _made("xa", "pp-1-A", (10, UPPER + DIGITS), "-", (13, DIGITS), "-", (64, HEX)),
    "slack session": _made("xo", "xc-", (12, DIGITS), "-", (12, DIGITS), "-", (12, DIGITS), "-", (64, HEX)),
    "slack config": _made("xo", "xe.xo", "xp-1-", (160, URLSAFE)),
    "anthropic": _made("sk-", "ant-", "api03-", (93, URLSAFE), "AA"),
    "anthropic admin": _made("sk-", "ant-", "admin01-", (93, URLSAFE), "AA"),
    "anthropic oauth": _made("sk-", "ant-", "oat01-", (93, URLSAFE), "AA"),
    "openai legacy": _made("sk", "-", (20, WORD), "T3Bl", "bkFJ", (20, WORD)),
    "openai project": _made("sk-", "proj-", (74, URLSAFE), "T3Bl", "bkFJ", (74, URLSAFE)),
    "openai service": _made("sk-", "svcacct-", (74, URLSAFE)),
    "openrouter": _made("sk-", "or-v1-", (64, HEX)),
    "deepseek": _made("sk", "-", (32, HEX)),
    "langfuse": lambda d: "sk" + "-lf-" + d.uuid(),
    "google api key": _made("AI", "za", "Sy", (33, URLSAFE)),
    "google access": _made("ya", "29.", "a0Af", (120, URLSAFE)),
    "google refresh": _made("1/", "/0", (40, URLSAFE)),
    "google client secret": _made("GOC", "SPX-", (28, URLSAFE)),
    "stripe live": _made("sk", "_live_", (24, WORD)),
    "stripe test": _made("sk", "_test_", (99, WORD)),
    "stripe restricted": _made("rk", "_live_", (24, WORD)),
    "stripe webhook": _made("wh", "sec_", (32, WORD)),
    "npm": _made("np", "m_", (36, WORD)),
    "pypi": _made("py", "pi-AgE", "IcHlwaS5vcmc", (90, URLSAFE)),
    "rubygems": _made("ruby", "gems_", (48, HEX)),
    "crates": _made("c", "io", (32, WORD)),
    "nuget": _made("o", "y2", (43, LOWER + DIGITS)),
    "clojars": _made("CLO", "JARS_", (60, HEX)),
    "docker": _made("dc", "kr_pat_", (27, URLSAFE)),
    "artifactory": _made("AK", "Cp", (69, WORD)),
    "sendgrid": _made("S", "G.", (22, URLSAFE), ".", (43, URLSAFE)),
    "mailgun": _made("ke", "y-", (32, HEX)),
    "mailchimp": _made((32, HEX), "-u", "s12"),
    "brevo": _made("xkey", "sib-", (64, HEX), "-", (16, WORD)),
    "resend": _made("r", "e_", (8, WORD), "_", (24, WORD)),
    "twilio": _made("S", "K", (32, HEX)),
    "square": _made("sq0", "atp-", (22, URLSAFE)),
    "square production": _made("EA", "AA", (60, URLSAFE)),
    "facebook": _made("EA", "AC", (160, WORD)),
    "shopify": _made("shp", "at_", (32, HEX)),
    "shopify custom": _made("shp", "ca_", (32, HEX)),
    "shopify shared": _made("shp", "ss_", (32, HEX)),
    "razorpay": _made("rz", "p_live_", (14, WORD)),
    "plaid": lambda d: "access" + "-production-" + d.uuid(),
    "flutterwave": _made("FLW", "SECK_TEST-", (32, HEX), "-X"),
    "easypost": _made("EZ", "AK", (54, WORD)),
    "shippo": _made("ship", "po_live_", (40, HEX)),
    "duffel": _made("duf", "fel_live_", (43, URLSAFE)),
    "digitalocean": _made("do", "p_v1_", (64, HEX)),
    "digitalocean refresh": _made("do", "r_v1_", (64, HEX)),
    "heroku": _made("HR", "KU-AA", (58, URLSAFE)),
    "alibaba": _made("LT", "AI", (20, WORD)),
    "tencent": _made("AK", "ID", (32, WORD)),
    "yandex": _made("AQ", "VN", (35, URLSAFE)),
    "scaleway": _made("SC", "W", (17, UPPER + DIGITS)),
    "cloudflare": _made("v1.", "0-", (24, HEX), "-", (146, HEX)),
    "fly": _made("fo", "1_", (43, URLSAFE)),
    "netlify": _made("nf", "p_", (36, WORD)),
    "render": _made("rn", "d_", (28, WORD)),
    "supabase": _made("sb", "p_", (40, HEX)),
    "supabase secret": _made("sb_", "secret_", (32, URLSAFE)),
    "neon": _made("na", "pi_", (64, LOWER + DIGITS)),
    "planetscale": _made("pscale", "_tkn_", (43, URLSAFE)),
    "aiven": _made("AV", "NS_", (20, URLSAFE)),
    "databricks": _made("da", "pi", (32, HEX)),
    "pinecone": _made("pc", "sk_", (5, WORD), "_", (64, WORD)),
    "vault": _made("hv", "s.", (95, URLSAFE)),
    "vault batch": _made("hv", "b.", (140, URLSAFE)),
    "vault legacy": lambda d: "s" + "." + "aB3" + d.text(21),
    "doppler": _made("dp", ".pt.", (43, WORD)),
    "doppler service": _made("dp", ".st.", "dev.", (43, WORD)),
    "1password service": lambda d: "ops" + "_ey" + "J" + d.encoded(210).replace("=", ""),
    "age": _made("AGE-SECRET", "-KEY-1", (58, UPPER + DIGITS)),
    "pulumi": _made("pu", "l-", (40, HEX)),
    "infracost": _made("ic", "o-", (32, WORD)),
    "terraform": _made((14, WORD), ".atlas", "v1.", (67, URLSAFE)),
    "tailscale": _made("ts", "key-auth-", (16, WORD), "-", (32, WORD)),
    "grafana": _made("gl", "sa_", (32, WORD), "_", (8, HEX)),
    "sentry user": _made("snt", "ryu_", (64, HEX)),
    "new relic": _made("NR", "AK-", (27, UPPER + DIGITS)),
    "dynatrace": _made("dt0", "c01.", (24, UPPER + DIGITS), ".", (64, UPPER + DIGITS)),
    "sonar": _made("sq", "p_", (40, HEX)),
    "postman": _made("PM", "AK-", (24, HEX), "-", (34, HEX)),
    "launchdarkly": lambda d: "ap" + "i-" + d.uuid(),
    "octopus": _made("AP", "I-", (26, UPPER + DIGITS)),
    "buildkite": _made("bk", "ua_", (40, HEX)),
    "circleci": _made("CCI", "PAT_", (22, WORD), "_", (40, HEX)),
    "prefect": _made("pn", "u_", (36, WORD)),
    "sourcegraph": _made("sg", "p_", (16, HEX), "_", (40, HEX)),
    "readme": _made("rd", "me_", (70, LOWER + DIGITS)),
    "frame.io": _made("fi", "o-u-", (64, URLSAFE)),
    "figma": _made("fi", "gd_", (40, URLSAFE)),
    "airtable": _made("pa", "t", (14, WORD), ".", (64, HEX)),
    "notion": _made("nt", "n_", (11, DIGITS), (35, WORD)),
    "notion legacy": _made("sec", "ret_", (43, WORD)),
    "linear": _made("lin", "_api_", (40, WORD)),
    "asana": _made("1/", (16, DIGITS), ":", (32, HEX)),
    "hubspot": lambda d: "pa" + "t-na1-" + d.uuid(),
    "contentful": _made("CF", "PAT-", (43, URLSAFE)),
    "typeform": _made("tf", "p_", (59, URLSAFE)),
    "hugging face": _made("h", "f_", (34, string.ascii_letters)),
    "replicate": _made("r", "8_", (37, WORD)),
    "groq": _made("gs", "k_", (52, WORD)),
    "xai": _made("xa", "i-", (80, WORD)),
    "perplexity": _made("pp", "lx-", (48, WORD)),
    "nvidia": _made("nv", "api-", (64, URLSAFE)),
    "fireworks": _made("f", "w_", (24, WORD)),
    "tavily": _made("tv", "ly-dev-", (32, WORD)),
    "firecrawl": _made("f", "c-", (32, HEX)),
    "e2b": _made("e2", "b_", (40, HEX)),
    "langsmith": _made("lsv2", "_pt_", (32, HEX), "_", (10, HEX)),
    "jina": _made("ji", "na_", (60, WORD)),
    "telegram": _made((10, DIGITS), ":A", "A", (33, URLSAFE)),
    "discord": _made("M", (25, WORD), ".G", (5, WORD), ".", (38, URLSAFE)),
    "azure client secret": _made((3, WORD), "8Q", "~", (34, URLSAFE)),
    "openshift": _made("sha256", "~", (43, URLSAFE)),
    "maxmind": _made((6, WORD), "_", (29, WORD), "_m", "mk"),
    "together": _made("tgp", "_v1_", (43, URLSAFE)),
    "adobe": _made("p8", "e-", (32, WORD)),
    "amazon mws": lambda d: "amzn" + ".mws." + d.uuid(),
    "defined networking": _made("dn", "key-", (26, WORD), "-", (52, WORD)),
    "dropbox": _made("s", "l.", (135, URLSAFE)),
    "harness": _made("pa", "t.", (22, WORD), ".", (24, WORD), ".", (20, WORD)),
    "intra42": _made("s-s4", "t2ud-", (64, HEX)),
    "scalingo": _made("tk", "-us-", (48, URLSAFE)),
    "settlemint": _made("sm", "_aat_", (16, WORD)),
    "facebook app": _made("1", (15, DIGITS), "|", (32, URLSAFE)),
    "jwt": lambda d: ".".join(_segments(d)),
}


def _segments(dice: Dice) -> Iterator[str]:
    for claim in ('{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{dice.text(10, DIGITS)}","iat":1716239022}}'):
        yield base64.urlsafe_b64encode(claim.encode()).decode().rstrip("=")
    yield dice.text(43, URLSAFE)


#: Texts that carry any credential; `@` is its place.
CARRIERS = split(
    r"""
I pasted the key @ into the chat, sorry. ¦ It was @. ¦ use @, then retry; if not: ask ¦ (@) ¦ <@>
{"note": "@", "n": 1} ¦ {"cmd": "run \"@\" now\nnext"} ¦ log: \n@\n done ¦ value: @⏎other: 1 ¦ list:⏎  - @⏎  - b
export SOMETHING=@⏎echo done ¦ deploy.sh --with '@' && echo ok ¦ x = "@"  # do not commit ¦ `@` ¦ **@**
2026-11-30T12:00:00Z WARN login failed with @ (attempt 3) ¦ https://api.host.dev/v1/items?t=@&page=2
first line⏎@⏎last line ¦ -   X='@'⏎+   X='' ¦ 密码是@。下一步 ¦ | name | @ | ok |
curl -H 'X-Thing: @' https://host.dev/ ¦ ␛[31m@␛[0m
"""
)


def shaped(seed: int, carriers_each: int = 6) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, secret, text) for every shape in some of the carriers."""
    dice = Dice(seed)
    for kind, make in SHAPES.items():
        for carrier in dice.random.sample(CARRIERS, carriers_each):
            secret = make(dice)
            yield kind, secret, carrier.replace("@", secret)


def _block(dice: Dice, label: str = "RSA ", lines: int = 6) -> tuple[str, list[str], str]:
    body = [dice.text(64, WORD + "+/") for _ in range(lines)] + [dice.text(22, WORD) + "=="]
    return f"-----BEGIN {label}PRIVATE" + " KEY-----", body, f"-----END {label}PRIVATE" + " KEY-----"


def private_keys(seed: int) -> Iterator[tuple[str, list[str], str]]:
    """Yield (kind, lines that must not survive, text): whole, escaped, quoted, indented and cut-off keys."""
    dice = Dice(seed)
    for label in ("RSA ", "", "EC ", "OPENSSH ", "DSA ", "ENCRYPTED "):
        begin, body, end = _block(dice, label)
        whole = "\n".join([begin, *body, end])
        yield f"{label}plain", body, f"before\n{whole}\nafter"
        yield f"{label}json", body, '{"private_key": "' + whole.replace("\n", "\\n") + '\\n", "id": "x"}'
        yield f"{label}nested json", body, '"{\\"k\\": \\"' + whole.replace("\n", "\\\\n") + '\\"}"'
        yield f"{label}indented", body, "key: |\n    " + whole.replace("\n", "\n    ") + "\nnext: 1\n"
        yield f"{label}quoted", body, "\n".join(f"> {line}" for line in whole.split("\n"))
        yield f"{label}diff", body, "\n".join(f"+{line}" for line in whole.split("\n"))
        yield f"{label}code", body, "k = (\n" + "\n".join(f'    "{line}\\n"' for line in whole.split("\n")) + "\n)\n"
        yield f"{label}windows", body, whole.replace("\n", "\r\n")
        yield f"{label}one line", body, whole.replace("\n", " ")
        yield f"{label}numbered", body, "\n".join(f"{n:>5}\t{line}" for n, line in enumerate(whole.split("\n"), 1))
        yield f"{label}cut tail", body[:4], "\n".join([begin, *body[:4]]) + "\n[output truncated]"
        yield f"{label}cut in a line", body[:4], "\n".join([begin, *body[:3], body[3][:40]])
        yield f"{label}cut head", body, "…\n" + "\n".join([*body, end]) + "\nbye"
    pgp = "-----BEGIN PGP PRIVATE" + " KEY BLOCK-----"
    body = [dice.text(64, WORD + "+/") for _ in range(5)]
    yield "pgp", body, "\n".join([pgp, "Version: GnuPG v2", "", *body, "=aB3d", pgp.replace("BEGIN", "END")])
    begin, body, end = _block(dice)
    headers = ["Proc-Type: 4,ENCRYPTED", f"DEK-Info: AES-128-CBC,{dice.text(32, HEX).upper()}", ""]
    yield "encrypted", body, "\n".join([begin, *headers, *body, end])
    yield "putty", body, "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 7\n" + "\n".join(body) + "\nPrivate-MAC: 0\n"
    packed = base64.b64encode("\n".join([begin, *body, end]).encode()).decode()
    yield "kubernetes", [packed], f"data:\n  tls.key: {packed}\n"


#: Ways to write a name and its value; `%` is the name, `@` the value. Names are written as each form has them.
_ENV = split(
    r"""
%=@ ¦ export %=@ ¦ %=@⏎NEXT=1 ¦ docker run -e %=@ image:1 ¦ %='@' ¦ %="@" ¦ $env:% = '@' ¦ ENV % @ ¦ x\n%=@\ny
"""
)
_DATA = split(
    r"""
{"%": "@"} ¦ {"a": 1, "%":"@", "b": null} ¦ {\"%\": \"@\"} ¦ {\\\"%\\\":\\\"@\\\"} ¦ {'%': '@'} ¦ %: '@'
%: "@" ¦ % = '@' ¦ % = "@" ¦ %: @ ¦ %: @  # rotate ¦ %=@ ¦ %='@', retries=3 ¦ <%>@</%>
<add key="%" value="@"/> ¦ {"name": "%", "value": "@"} ¦ - name: %⏎  value: @ ¦ %: str = "@" ¦ const % = `@`;
config['%'] = '@' ¦ % => '@' ¦ "%" => "@", ¦ %: |⏎  @ ¦ | % | `@` | ¦ https://host.dev/cb?%=@&x=1 ¦ --data '%=@'
**%**: `@` ¦ %:⏎  '@' ¦ % := "@" ¦ %: "@
"""
)
_FLAGS = split(
    r"""
tool --% @ ¦ tool --%=@ --dry-run ¦ tool --% '@' run ¦ tool --% "@" ¦ ["tool", "--%", "@"] ¦ tool --% \⏎  @ x
"""
)

ENV_NAMES = split(
    r"""
AWS_SECRET_ACCESS_KEY ¦ DB_PASSWORD ¦ PGPASSWORD ¦ MYSQL_ROOT_PASSWORD ¦ API_KEY ¦ DD_API_KEY
CLOUDFLARE_API_TOKEN ¦ JWT_SECRET ¦ SECRET_KEY_BASE ¦ OPENAI_API_KEY ¦ TWILIO_AUTH_TOKEN ¦ GITHUB_TOKEN
AZURE_CLIENT_SECRET ¦ NPM_TOKEN ¦ REDIS_PASS ¦ SMTP_PASSWORD ¦ ENCRYPTION_KEY ¦ SESSION_SECRET ¦ VAULT_TOKEN
SLACK_SIGNING_SECRET ¦ HEROKU_API_KEY ¦ DATADOG_APP_KEY ¦ ACCESS_TOKEN ¦ STRIPE_KEY
"""
)
DATA_NAMES = split(
    r"""
password ¦ passwd ¦ db_password ¦ userPassword ¦ api_key ¦ apiKey ¦ apikey ¦ access_token ¦ accessToken
client_secret ¦ clientSecret ¦ secret_key ¦ secretAccessKey ¦ auth_token ¦ refresh_token ¦ private_key
aws_secret_access_key ¦ signing_key ¦ encryptionKey ¦ bot_token ¦ smtp.password ¦ pwd ¦ passphrase ¦ account_key
webhook_secret ¦ x-api-key ¦ service-token ¦ credential ¦ token ¦ secret
"""
)
FLAG_NAMES = split(
    r"""
password ¦ token ¦ api-key ¦ client-secret ¦ auth-token ¦ db-password ¦ secret-key ¦ access-token
"""
)


def _value(dice: Dice, name: str) -> str:
    plain = name.lower().replace("-", "_")
    if "pass" in plain or plain == "pwd":
        return dice.password()
    if "aws" in plain or "secretaccess" in plain:
        return dice.text(40, WORD + "/+")
    noise = (dice.text(32, HEX), dice.text(24), dice.text(40, URLSAFE), dice.text(16))
    return dice.pick(*noise, dice.uuid(), dice.encoded(24))


def named(seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield (form, secret, text) for every way of writing with some names each."""
    dice = Dice(seed)
    for forms, names in ((_ENV, ENV_NAMES), (_DATA, DATA_NAMES), (_FLAGS, FLAG_NAMES)):
        for form in forms:
            for name in dice.random.sample(names, 8):
                secret = _value(dice, name)
                yield f"{form} {name}", secret, form.replace("%", name).replace("@", secret)


def placed(seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield (place, secret, text): URLs, headers, commands, connection strings, sentences."""
    yield from _filled(seed)
    yield from _special(seed)


def _filled(seed: int) -> Iterator[tuple[str, str, str]]:
    dice = Dice(seed)
    for form in (*_URLS, *_HEADERS, *_COMMANDS, *_SENTENCES):
        for _ in range(6):
            guessed = dice.pick(dice.text(14), f"hunter{dice.text(3, DIGITS)}")
            made = form in _HEADERS or "oken" in form or "ey" in form
            secret = dice.text(30, URLSAFE) if made else guessed
            yield form, secret, form.replace("~", secret)


def _special(seed: int) -> Iterator[tuple[str, str, str]]:
    dice = Dice(seed)
    for inner in ("p@ss:w0rd9", "p%40ss%3Aw0", "ab/cd9x@yz", "100%sure", "a:b:c:9", "pa#ss?9x"):
        yield "odd url", inner, f"postgres://user:{inner}@db.host.dev:5432/app"
    for _ in range(12):
        pair = base64.b64encode(f"user:{dice.text(12)}".encode()).decode()
        yield "basic", pair, dice.pick(
            f"Authorization: Basic {pair}", f'"Authorization": "Basic {pair}"', f'{{"auth": "{pair}"}}',
            f"curl -H 'authorization: basic {pair}' https://h.dev", f"Proxy-Authorization: Basic {pair}\r\n",
        )  # fmt: skip
    for where in ("https://hooks.slack.com/services", "hooks.slack.com/workflows"):
        secret = dice.text(24)
        yield "slack webhook", secret, f"post to {where}/T0ABCDEF1/B0ABCDEF2/{secret} please"
    for host in ("discord.com", "discordapp.com", "ptb.discord.com"):
        secret = dice.text(68, URLSAFE)
        yield "discord webhook", secret, f"https://{host}/api/webhooks/{dice.text(18, DIGITS[1:] + DIGITS)}/{secret}"
    signature = dice.text(42, WORD) + "%3D"
    yield "sas", signature, f"https://a.blob.core.windows.net/c/f?sv=2024-01-01&se=2027&sr=b&sp=r&sig={signature}"
    signature = dice.text(64, HEX)
    yield "presigned", signature, f"https://b.s3.amazonaws.com/k?X-Amz-Date=2026&X-Amz-Signature={signature}"
    key = dice.encoded(64)
    yield "azure", key, f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={key};EndpointSuffix=core.net"
    yield "aws csv", key[:40].replace("=", "x"), "AK" + f"IA{dice.text(16, BASE32)},{key[:40].replace('=', 'x')}"


_URLS = split(
    r"""
postgres://user:~@host/db ¦ postgresql+asyncpg://user:~@db.host.dev:5432/app?sslmode=require
https://user:~@host.dev/path ¦ redis://:~@cache:6379/0 ¦ mongodb+srv://app:~@c0.host.dev/?retryWrites=true
amqp://app:~@mq:5672/%2f ¦ git clone https://oauth2:~@git.host.dev/a/b.git
DATABASE_URL=mysql://root:~@127.0.0.1:3306/app ¦ "url": "https://u:~@h.dev" ¦ ftp://me:~@ftp.host.dev
root:~@tcp(127.0.0.1:3306)/app ¦ HTTPS_PROXY=http://me:~@proxy:3128 ¦ smtp://a%40b.c:~@mail:587
mongodb://u:~@h1:27017,h2:27017/db ¦ (see https://u:~@host.dev/x) ¦ ws://u:~@[::1]:80/
url=https://u:~@h.dev,next
"""
)
_HEADERS = split(
    r"""
Authorization: Bearer ~ ¦ curl -H 'Authorization: Bearer ~' https://h.dev ¦ -H "Authorization: token ~"
{"Authorization": "Bearer ~"} ¦ headers={'Authorization': 'Bearer ~'} ¦ .set("Authorization", "Bearer ~")
X-API-Key: ~ ¦ x-auth-token: ~ ¦ PRIVATE-TOKEN: ~ ¦ authorization: Bot ~ ¦ Bearer ~ ¦ Authorization: ApiKey ~
\"Authorization\": \"Bearer ~\" ¦ authorization=Bearer ~ ¦ api-key: ~ ¦ Authorization: ~
"""
)
_COMMANDS = split(
    r"""
mysql -u root -p~ app ¦ mysqldump -p'~' app > x.sql ¦ docker login -u me -p ~ reg.dev ¦ sshpass -p ~ ssh h
redis-cli -h h -a ~ ping ¦ curl -u me:~ https://h.dev ¦ curl -s --user "me:~" https://h.dev
psql 'host=h password=~ user=u' ¦ PGPASSWORD=~ psql -h h ¦ machine h.dev login me password ~
machine h.dev⏎  login me⏎  password ~ ¦ sqlcmd -S h -U sa -P ~ ¦ mongosh -u a -p ~ db
net use x /user:a /password:~ ¦ Server=h;User Id=sa;Password=~; ¦ uid=sa;pwd=~ ¦ CREATE USER a IDENTIFIED BY '~'
ALTER ROLE a WITH PASSWORD '~' ¦ gpg --batch --passphrase ~ -d f ¦ az login -u a -p ~ ¦ http -a me:~ h.dev
curl -X POST \⏎  -u me:~ \⏎  https://h.dev ¦ HTTPBasicAuth('me', '~') ¦ requests.get(u, auth=('me', '~'))
client.setPassword("~") ¦ os.environ['API_KEY'] = '~' ¦ os.getenv('DB_PASSWORD', '~')
define('DB_PASSWORD', '~'); ¦ helm registry login h -u a --password ~ ¦ echo 'password=~' >> f
kubectl create secret generic s --from-literal=password=~ ¦ //registry.npmjs.org/:_authToken=~
spring.datasource.password=~ ¦ password: !!str '~'
"""
)
_SENTENCES = split(
    r"""
The password is ~, keep it. ¦ the password is `~` ¦ Password: ~ ¦ my api key is '~' ¦ API key: ~ ¦ password = ~
set the password to ~ please ¦ Access token: ~ ¦ Client Secret: ~ ¦ user: admin, password: ~
AWS Secret Access Key [None]: ~
"""
)
