"""Credentials that are known by their shape alone.

Vendors give their credentials a beginning that nothing else has; those beginnings, lengths and alphabets are
public facts, gathered here as data. All of them hold a run of twenty letters, digits, `_`, `.` and `-`, so
text is first reduced to its long runs, and only the shapes whose first bytes were met are ever compiled.
Matching never goes back over what it has read: every pattern reads one alphabet greedily, or a bounded
length, or stops at the next dot.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from bede.redact.places import Span, credential
from bede.redact.values import is_opaque, is_shown, rx

# A shape a line: kind, beginnings, what must follow. `^` marks beginnings too plain to be believed after a
# hyphen or an underscore. `@` stands for `[A-Za-z0-9]`, `~` for `[A-Za-z0-9_-]`.
_SHAPES = r"""
aws-access-key AKIA|ASIA|ABIA|ACCA (?![A-Z0-9]*AAAAA)[A-Z0-9]{16}
aws-access-key A3T [A-Z0-9]{17}
aws-bedrock-key ABSK [A-Za-z0-9+/]{80,}={0,2}
github-token ghp_|gho_|ghu_|ghs_|ghr_ @{36,}
github-token github_pat_ [A-Za-z0-9_]{36,}
gitlab-token glpat-|gldt-|glrt-|glrtr-|glft-|glffct-|glimt-|glsoat-|gloas-|glagent-|glptt-|glwt- [\w-]{20,}(?:\.~+)*
gitlab-token glcbt- @{1,5}_~{20,}
gitlab-token GR1348941 ~{20,}
bitbucket-token ATBB|ATCTT3|BBDC- [\w=+/-]{28,}
atlassian-token ATATT3 [\w=-]{20,}
slack-token xoxb-|xoxa-|xoxp-|xoxo-|xoxr-|xoxs-|xoxe-|xoxc-|xoxd- (?=~*\d|%)[\w%+/-]{10,}
slack-token xoxe. xox[bp]-~{20,}
slack-token xapp- \d+-@+-\d+-@{16,}
anthropic-key sk-ant- ~{20,}
openai-key sk-proj-|sk-svcacct-|sk-admin-|sk-None- ~{20,}
openai-key ^sk- (?=[A-Za-z]*\d)@{20,}|(?=~*\d)(?=~*[A-Z])~{40,}
openrouter-key sk-or- (?:v\d-)?~{32,}
langfuse-key sk-lf- [0-9a-f-]{36}
google-api-key AIza ~{35,}
google-oauth ya29. [\w.-]{20,}
google-oauth GOCSPX- ~{20,}
stripe-key sk_live_|sk_test_|sk_prod_|rk_live_|rk_test_|rk_prod_|sk_org_ (?=\w*[\dA-Z])[\w+/]{10,}={0,2}
stripe-key whsec_ [A-Za-z0-9+/]{24,}={0,2}
elevenlabs-key ^sk_ [0-9a-f]{48}
npm-token npm_ @{30,}
pypi-token pypi- (?=~*\d)(?=~*[A-Z])~{40,}
rubygems-token rubygems_ @{40,}
crates-token cio @{32}
nuget-key oy2 [a-z0-9]{43}
clojars-token CLOJARS_ @{40,}
packagist-token packagist_ [a-z]{3}_[0-9a-f]{24,}
docker-token dckr_pat_|dckr_oat_ ~{20,}
artifactory-key AKCp @{60,}
artifactory-key cmVmd @{59}
sendgrid-key SG. ~{16,32}\.~{16,64}
mailgun-key ^key- (?=[a-z]*\d)[0-9a-z]{32}
brevo-key xkeysib-|xsmtpsib- @{40,}(?:-@{8,})?
resend-key ^re_ @{6,10}_@{20,}
twilio-key ^SK [0-9a-fA-F]{32}
square-key sq0atp-|sq0csp-|sq0idp- ~{22,}
square-key ^EAAA (?=~*\d)(?!~*AAA)~{56,}
facebook-token EAA (?!@*AAAAA)@{90,}
shopify-token shpat_|shpca_|shppa_|shpss_|shptka_|shprt_ @{24,}
razorpay-key rzp_live_|rzp_test_ @{14,}
plaid-token access-production-|access-sandbox-|access-development- [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
flutterwave-key FLWSECK [_A-Z]{0,5}-[0-9a-zA-Z]{12,}(?:-X)?
easypost-key EZAK|EZTK @{50,}
shippo-key shippo_live_|shippo_test_ @{30,}
duffel-token duffel_live_|duffel_test_ [\w=-]{43}
digitalocean-token dop_v1_|doo_v1_|dor_v1_ @{40,}
heroku-key HRKU- [\w-]{36,}
alibaba-key LTAI @{16,24}
tencent-key AKID @{32}
yandex-key AQVN ~{35,38}
yandex-key ^t1. [\w-]{20,}={0,2}\.~{80,}={0,2}
scaleway-key SCW [A-Z0-9]{17}
cloudflare-token cfut_|cfat_|cfk_ @{30,}
cloudflare-token v1.0- [0-9a-f]{24}-[0-9a-f]{100,}
fly-token fo1_ ~{40,}
fly-token fm1a_|fm1r_|fm2_ [A-Za-z0-9+/]{60,}={0,3}
netlify-token nfp_ @{36,}
vercel-token vcp_|vck_|vci_|vca_|vcr_ ~{24,}
vercel-token vercel_blob_rw_ [A-Za-z0-9_]{30,}
render-key rnd_ @{28,}
supabase-key sbp_ ~{36,}
supabase-key sb_secret_ ~{20,}
neon-key napi_ @{40,}
planetscale-token pscale_tkn_|pscale_pw_|pscale_oauth_ [\w=.-]{31,}\w
aiven-password AVNS_ ~{15,}
mongodb-key mdb_sa_sk_ ~{30,}
databricks-token dapi|dose|dkea (?=[a-z]*\d)[0-9a-z]{32}(?:-\d)?
confluent-key cflt @{56,}
pinecone-key pcsk_ [A-Za-z0-9_]{40,}
vault-token hvs.|hvb.|hvr. ~{24,}
vault-token ^s. (?=[A-Za-z]*\d)(?=(?:[A-Za-z]*\d){3}|[a-z0-9]*[A-Z])@{24}
doppler-token dp.pt.|dp.st.|dp.ct.|dp.sa.|dp.scim.|dp.audit. (?:[a-z0-9_-]{2,35}\.)?@{32,}
onepassword-token ops_eyJ [A-Za-z0-9+/=_-]{100,}
onepassword-key A3- [A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}
age-key AGE-SECRET-KEY-1 [A-Z0-9]{58}
pulumi-token pul- (?=[a-z]*\d)[0-9a-z]{40}
infracost-key ico- (?=[A-Za-z]*\d)@{32}
tailscale-key tskey- [a-z]+-~{16,}
grafana-token glsa_ \w{30,}
grafana-token glc_ [A-Za-z0-9+/]{32,}={0,3}
grafana-token eyJrIjoi [A-Za-z0-9]{50,}={0,3}
sentry-token sntryu_ @{40,}
sentry-token sntrys_ [\w+/=-]{40,}
newrelic-key NRAK-|NRJS-|NRII-|NRAA- ~{19,}
dynatrace-token dt0c01.|dt0s01.|dt0s16. [A-Z0-9]{8,24}\.[A-Z0-9]{64}
sonar-token sqp_|squ_|sqa_ @{32,}
snyk-token snyk_uat.|snyk_sat. [\w.-]{30,}
postman-key PMAK- ~{40,}
launchdarkly-key ^api-|^sdk-|^mob- [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
octopus-key ^API- [A-Z0-9]{25,27}
buildkite-token bkua_ @{32,}
circleci-token CCIPAT_|CCIPRJ_ \w{30,}
prefect-token pnu_|pnb_ @{30,}
sourcegraph-token sgp_|sgd_|slk_ (?:(?:@{16}|local)_)?@{40,}
readme-key rdme_ @{40,}
frameio-token fio-u- [\w=-]{64}
figma-token figd_|figo_|figr_ ~{30,}
airtable-token ^pat @{14}\.@{40,}
notion-token secret_ (?=[A-Za-z]*\d)@{32,}
notion-token ntn_ @{30,}
linear-key lin_api_|lin_oauth_ @{24,}
hubspot-token pat-na|pat-eu|pat-ap \d?-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
contentful-token CFPAT- ~{30,}
typeform-token tfp_ [\w=.-]{39,}\w
mapbox-token ^sk. eyJ~{40,}\.~{16,}
trello-token ATTA [0-9a-f]{60,}
huggingface-token hf_|api_org_ @{30,}
replicate-token r8_ @{30,}
groq-key gsk_ @{40,}
xai-key xai- ~{40,}
perplexity-key pplx- @{32,}
nvidia-key nvapi- ~{40,}
fireworks-key ^fw_ @{20,}
tavily-key tvly- (?:(?:dev|prod)-)?@{20,}
firecrawl-key ^fc- (?=[a-z]*\d)[0-9a-z]{32}
e2b-key e2b_ @{32,}
langsmith-key lsv2_pt_|lsv2_sk_ \w{30,}
jina-key jina_ ~{40,}
voyage-key ^pa-|^al- (?=~*\d)~{43}
cerebras-key csk- [a-z0-9]{40,}
wandb-key wandb_v1_ ~{40,}
together-key tgp_v1_ ~{40,}
adobe-secret p8e- @{32}
amazon-mws-token amzn.mws. [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
authress-key ^sc_|^ext_|^scauth_|^authress_ @{5,30}\.@{4,6}\.acc[_-][a-z0-9-]{10,32}\.[\w+/=-]{30,}
clickhouse-key ^4b1d (?=@*[A-Z])@{38}
dnkey-token dnkey- [\w=-]{26}-[\w=-]{52}
dropbox-token ^sl. (?=~*\d)(?=~*[A-Z])~{60,}
harness-token ^pat.|^sat. ~{22}\.@{24}\.@{20}
intra42-secret s-s4t2ud-|s-s4t2af- [0-9a-f]{64}
scalingo-token tk-us- ~{48}
settlemint-token sm_aat_|sm_pat_|sm_sat_ @{16}
jwt ZXlKaGJHY2lPaU|ZXlKMGVYQWlPaU|ZXlKcmFXUWlPaU [A-Za-z0-9+/_-]{40,}={0,2}
aikido-token AIK_CI_|AIK_SECRET_ @{20,}
apify-token apify_api_ @{30,}
aws-bedrock-key bedrock-api-key- [A-Za-z0-9+/=]{40,}
brave-key ^BSA (?=~*\d)(?=~*[a-z])~{24,}
canva-secret cnvca @{40,}
cartesia-key sk_car_ ~{20,}
clickup-token ^pk_ \d{6,}_@{30,}
cloudsmith-key ^csa_ (?=[A-Za-z]*\d)@{36,}
cockroach-key CCDB1_ @{20,}_@{30,}
cursor-key ^key_ [0-9a-f]{64}
deno-token ddp_|ddo_ @{36}
devin-token ^apk_user_|^cog_ (?=[A-Za-z]*\d)@{40,}
elastic-key essu_ [A-Za-z0-9+/=_-]{40,}
exoscale-key ^EXO [0-9a-f]{24,}
gemini-key AQ.Ab ~{40,}
govnotify-key gcntfy- [\w-]{60,}
ionic-token ^ion_ @{40,}
lichess-token ^lip_ (?=[A-Za-z]*\d)@{20}
llama-key llx- @{40,}
mailersend-token mlsn. [0-9a-z]{60,}
mercury-token mercury_production_ \w{30,}
mergify-token mergify_application_key_ ~{40,}
nylas-key nyk_ @{40,}
onesignal-key os_v2_app_|os_v2_org_ [a-z0-9]{60,}
paddle-key pdl_live_apikey_|pdl_sdbx_apikey_ \w{30,}
pinterest-token pina_ @{20,}
polar-token polar_oat_|polar_pat_|polar_at_ ~{20,}
posthog-key phx_ ~{30,}
postman-key PMAT- @{20,}
ramp-secret ramp_sec_ @{30,}
rootly-key rootly_ [0-9a-f]{60,}
runpod-key ^rpa_ (?=[A-Za-z]*\d)@{30,}
salesforce-token ^00D @{12,15}![\w.]{60,}
samsara-token samsara_api_ @{24,}
swarm-token SWMTKN-1-|SWMKEY-1- [\w/+-]{30,}
thunderstore-token ^tss_ (?=[A-Za-z]*\d)@{20,}
twitter-token ^AAAAAAAAAAAAAAAAAAAAA (?=[A-Za-z%]*\d)[A-Za-z0-9%]{60,100}
unkey-key unkey_ (?=[A-Za-z]*\d)@{20,}
upcloud-token ucat_ @{24,}
val-town-token vtwn_ ~{24,}
wakatime-key waka_ [0-9a-z-]{32,}
woocommerce-key ^cs_|^ck_ [0-9a-f]{40}
workato-token wrkaov-|wrkprod- ~{20,}(?:\.~+)*
xendit-key xnd_production_|xnd_development_ @{40,}
zoho-token ^1000. [0-9a-f]{32}\.[0-9a-f]{32}
zuplo-key zpka_ \w{30,}
matrix-token syt_ @{2,80}_@{20}_@{6}
kubernetes-token K10 [0-9a-f]{64}::server:[0-9a-f]{32}
private-key LS0tLS1CRUdJTiB (?!DRVJU|QVUJM|TU0gUFVCTEl)[A-Za-z0-9+/]{40,}={0,2}
jwt eyJ ~{8,}\.eyJ~{8,}(?:\.~*)?
jwt ^eyJ ~{16,}(?:\.~*){4}
"""

# Shapes that do not begin with a literal, by the byte before their long run ...
_BEFORE = {
    b":": (
        ("telegram-token", rb"(?<!\d)\d{8,10}:[\w-]{34,36}(?![\w-])"),
        ("firebase-key", rb"AAAA[\w-]{7}:[\w-]{120,}"),
        ("asana-token", rb"[012]/\d{13,20}(?:/\d{13,20})?:[0-9a-f]{32}"),
        ("astra-token", rb"AstraCS:[A-Za-z0-9]{20,}"),
        ("twitch-token", rb"oauth:[a-z0-9]{30}"),
    ),
    b"~": (
        ("azure-client-secret", rb"[\w.~-]{3}\dQ~[\w.~-]{31,34}"),
        ("openshift-token", rb"sha256~[\w-]{43}"),
    ),
    b"|": (("facebook-token", rb"(?<!\d)\d{15,16}\|[\w-]{27,40}(?![\w-])"),),
    b"$": (("braintree-token", rb"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"),),
    b"/": (
        ("google-oauth", rb"(?:1//0|4/0A)[\w-]{28,}"),
        ("slack-webhook", rb"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,}"),
        ("discord-webhook", rb"(?<=/api/webhooks/)\d{16,20}/[\w-]{50,}"),
        ("teams-webhook", rb"(?<=/IncomingWebhook/)\w{32}/[\w-]{36,}"),
    ),
}
# ... or by a part of it.
_WITHIN = (
    (b".atlasv1.", "terraform-token", rb"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}"),
    (b"-us", "mailchimp-key", rb"[0-9a-f]{32}-us\d{1,2}"),
    (b"_mmk", "maxmind-key", rb"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    (b".", "discord-token", rb"[MNO][A-Za-z0-9]{23,27}\.[\w-]{6}\.[\w-]{27,}"),
)

# Beginnings so peculiar that they are believed behind any letter: the last four bytes, and how long they are.
_GLUED = {b"ghp_": 4, b"gho_": 4, b"ghu_": 4, b"ghs_": 4, b"ghr_": 4, b"hub_": 7, b"pat-": 6, b"npm_": 4} | {
    b"ox%c-" % letter: 5 for letter in b"abcdeoprs"
}

RUN = b"x" * 20
_HYPHEN = ord("-")
_WORD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_BASE64 = _WORD + b"+/"
_ALPHABET = bytes(120 if c in _WORD else 32 for c in range(256))

KINDS = (
    frozenset(line.split(" ", 1)[0] for line in _SHAPES.strip().split("\n"))
    | {kind for rows in _BEFORE.values() for kind, _ in rows}
    | {kind for _, kind, _ in _WITHIN}
)


def outline(raw: bytes) -> bytes:
    """Return the text with `x` for every byte of a run and a blank for every other, offsets unchanged."""
    return raw.translate(_ALPHABET)


def shaped(raw: bytes, shape: bytes) -> Iterator[Span]:
    """Yield every credential that its shape gives away."""
    at = shape.find(RUN)
    while at >= 0:
        end = shape.find(b" ", at)
        end = end if end >= 0 else len(raw)
        if not _is_plain(raw[at:end]):
            yield from _begun(raw, at, end)
            yield from _beside(raw, at, end)
        at = shape.find(RUN, end)


def _is_plain(run: bytes) -> bool:
    # Twenty and more random characters without a digit or a capital: not in a thousand million credentials.
    # Only Hugging Face gives out letters alone.
    return run.islower() and run.translate(None, b"_.-").isalpha() and not run.startswith((b"hf_", b"api_org_"))


@cache
def _table() -> tuple[dict[bytes, list[tuple[bytes, str, bytes, bool]]], set[bytes]]:
    """Return the shapes by their first three bytes, and the first two of each."""
    table: dict[bytes, list[tuple[bytes, str, bytes, bool]]] = {}
    for line in _SHAPES.strip().split("\n"):
        kind, beginnings, tail = line.split(" ", 2)
        pattern = tail.replace("@", "[A-Za-z0-9]").replace("~", "[A-Za-z0-9_-]").encode()
        for beginning in beginnings.split("|"):
            prefix = beginning.lstrip("^").encode()
            table.setdefault(prefix[:3], []).append((prefix, kind, pattern, beginning[0] == "^"))
    return table, {prefix[:2] for prefix in table}


def _begun(raw: bytes, at: int, end: int) -> Iterator[Span]:
    (table, firsts), reached = _table(), at
    for start in _starts(raw, at, end):
        if start < reached or raw[start : start + 2] not in firsts:
            continue
        rows = table.get(raw[start : start + 3]) or table.get(raw[start : start + 2])
        if not rows:
            continue
        span = _fitting(raw, start, rows)
        if span:
            reached = span[1]
            if _is_real(raw, start, reached):
                yield span
                yield from _partner(raw, span)


def _fitting(raw: bytes, start: int, rows: list[tuple[bytes, str, bytes, bool]]) -> Span | None:
    inner = raw[start - 1 : start] in (b"_", b"-")
    for prefix, kind, tail, plain in rows:
        if raw.startswith(prefix, start) and not (plain and inner):
            match = rx(tail).match(raw, start + len(prefix))
            if match and not raw[match.end() : match.end() + 1].isalnum():
                return start, match.end(), kind
    return None


def _starts(raw: bytes, at: int, end: int) -> Iterator[int]:
    """Yield where in a run a credential may begin: at a word, behind an escape, an option, or a letter before it."""
    yield at
    before = raw[at - 1 : at]
    if before == b"\\":  # `\\nghp_…`, `\\x3dghp_…` and `\\u0022ghp_…` in escaped text
        yield from (at + 1, at + 3, at + 5)
    elif before in (b"%", b"="):  # `%3Dghp_…`, `=3Dghp_…`
        yield at + 2
    elif before in (b"[", b";") and (colour := rx(rb"\d{0,3}m").match(raw, at)):  # `\\u001b[1;32mghp_…`
        yield colour.end()
    if raw[at] == _HYPHEN:  # `mysql -pghp_…`
        yield at + 2
    for mark in rx(rb"[_.-](?=[A-Za-z0-9])").finditer(raw, at, end):
        glued = _GLUED.get(raw[mark.start() - 3 : mark.end()])
        if glued:
            yield mark.end() - glued
        yield mark.end()


def _is_real(raw: bytes, start: int, end: int) -> bool:
    walled = b"\0" in (raw[start - 1 : start], raw[end : end + 1])
    return not walled and not is_shown(raw[start:end])


def _partner(raw: bytes, span: Span) -> Iterator[Span]:
    """Yield the secret half, which AWS's own CSV and many a note put right behind the key's id."""
    if span[2] == "aws-access-key":
        half = rx(rb"[\s,:|;\"'/=]{1,4}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=\0])").match(raw, span[1])
        if half and not rx(rb"[0-9a-f]{40}").fullmatch(half[1]):
            yield *half.span(1), "aws-secret-key"


def _beside(raw: bytes, at: int, end: int) -> Iterator[Span]:
    """Yield what is known by the byte before the run, the word before it, or a part of it."""
    for kind, pattern in _BEFORE.get(raw[at - 1 : at], ()):
        match = rx(pattern).search(raw, max(0, at - 72), end + 40)
        if match and match.end() > at and _is_real(raw, *match.span()):
            yield *match.span(), kind
    if raw[at - 1 : at] in (b"+", b"/"):  # the run is the middle of base64, whose beginning may be a shape's
        before = raw[max(0, at - 160) : at]
        yield from _begun(raw, at - len(before) + len(before.rstrip(_BASE64)), at)
    for needle, kind, pattern in _WITHIN:
        if raw.find(needle, at, end) >= 0:
            for match in rx(pattern).finditer(raw, at, end + 80):
                if _is_real(raw, *match.span()):
                    yield *match.span(), kind
    word = raw[max(0, at - 7) : at].lower()
    if word.endswith((b"bearer ", b"basic ")):
        yield from credential(raw, at, word.strip())
    elif word[:-1].endswith(b"_pat") and word[-1:] in (b"=", b":") and is_opaque(raw[at:end], firm=True):
        yield at, end, "token"
