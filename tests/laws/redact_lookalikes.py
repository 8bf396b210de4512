"""What only looks like a secret: hashes, ids, references, placeholders, prose, and code about secrets."""

from __future__ import annotations

import re

from laws.redact_samples import HEX, Dice, split

#: Texts that must stay as they are; what stands in «» is filled by chance.
_LOOKS = split(
    r"""
commit «sha1» ¦ «sha1» fix the parser ¦ sha256:«sha256» ¦ digest «sha256» ¦ «sha512» ¦ md5 «md5» ¦ «uuid»
id=«uuid» ¦ session «uuid» started ¦ "integrity": "sha512-«b64_64»" ¦ integrity sha1-«b64_20» ¦ h1:«b64_32»
--hash=sha256:«sha256» ¦ img src=data:image/png;base64,iVBORw0KGgo«b64_32» ¦ nonce-«b64_16» ¦ "etag": "«md5»"
W/"«md5»" ¦ docker pull a@sha256:«sha256» ¦ pkg@«n».«n».«n»
resolved https://registry.npmjs.org/«word»/-/«word»-«n».«n».«n».tgz#«sha1»
go.sum «word» v0.0.0-2024«n»-«hex12» h1:«b64_32» ¦ trace_id=«hex32» span_id=«hex16» ¦ request-id: «uuid»
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI«b64_32» «word»@host ¦ SHA256:«b64_32»
-----BEGIN CERTIFICATE-----⏎MIID«b64_64»⏎«b64_64»⏎-----END CERTIFICATE-----
-----BEGIN PUBLIC KEY-----⏎MIIB«b64_64»⏎-----END PUBLIC KEY----- ¦ process.env.«CONST» ¦ os.environ["API_KEY"]
api_key = os.environ["«CONST»"] ¦ token = os.getenv("«CONST»") ¦ apiKey: process.env.«CONST»,
API_KEY=${«CONST»} ¦ password: ${«CONST»} ¦ PASSWORD=$DB_«CONST» ¦ secret: $(«word» read «word»)
token=`cat «word».txt` ¦ api_key: <your-«word»-key> ¦ API_KEY=YOUR_«CONST»_HERE ¦ api_key="YOUR_API_KEY"
token: xxxxxxxx«x» ¦ password=******** ¦ PASSWORD=<«word»> ¦ password: changeme ¦ SECRET_KEY=changeme
password: example ¦ token = "example-«word»" ¦ API_KEY=replace-me ¦ secret: "***" ¦ token: ...
password: string ¦ password: str ¦ password: string; ¦ token: Token ¦ secret: Optional[str]
password: str | None = None ¦ apiKey?: string ¦ api_key: SecretStr ¦ def login(user, password):
def f(token: str, secret: bytes) -> None: ¦ token = get_token() ¦ token = get_«word»(secret)
password = getpass.getpass() ¦ password=None ¦ password=password ¦ token=token ¦ api_key=self.api_key
api_key=settings.«CONST» ¦ secret=config.«word».secret ¦ token = tokens[«n»] ¦ password = user.password
self.token = token ¦ this.password = password; ¦ const token = await fetchToken(); ¦ token := r.Header.Get("X")
secret_manager_client_v2 ¦ from «word».secret_manager_client_v2 import SecretManagerClient
import «word».auth.token_store ¦ tokens: «n»000 ¦ max_tokens=«n»096 ¦ max_tokens: «n» ¦ total_tokens=«n»«n»«n»
"usage": {"prompt_tokens": «n»«n», "completion_tokens": {n}} ¦ token_count = «n» ¦ password_length >= «n»
the password is stored hashed ¦ a password is required ¦ the token is refreshed every «n» minutes
if the token was expired, «word» ¦ the secret is to keep going ¦ the key is that «word» is fast
passwords are hashed with bcrypt ¦ password is sha256-hashed ¦ use a secret manager for «word»
Password: required ¦ the access token has expired ¦ pass the token to the «word» ¦ «n» passed, «n» failed
tests pass: «n» ¦ pass=«n» fail=«n» ¦ bypass: true ¦ sk-button-primary ¦ class="sk-folding-«word» sk-cube«n»"
sk-«word»-«word»-«word»-«word» ¦ task-«word»-«word»-2024-11-30 ¦ npm_config_«word»_directory_path
npm_lifecycle_event=«word» ¦ hf_hub_download_«word»_«word»_files ¦ AK«aws-id»
aws_secret_access_key = wJalr«aws-half» ¦ AKIA«word» is no id ¦ $ «n».99 per month
price: «n»99.00 ¦ EUR «n»,«n» ¦ primary_key=True ¦ foreign_key: «word»_id ¦ cache_key = f"«word»-{n}"
sort_key: «word»_«n» ¦ partition_key=«word» ¦ public_key: «b64_32» ¦ key: «word» ¦ keyboard: «word»
monkey=«word»«n» ¦ hotkey: ctrl+«n» ¦ key=«uuid» ¦ idempotency_key=«uuid» ¦ next_token=«uuid»
page_token: «b64_16» ¦ csrf: «word» ¦ password_file=/run/secrets/«word» ¦ PASSWORD_FILE=/run/secrets/«word»
secret: /run/secrets/«word» ¦ PWD=/home/«word»/src ¦ OLDPWD=/srv/«word» ¦ secretName: «word»-tls
secretKeyRef:⏎  name: «word»⏎  key: «word» ¦ imagePullSecrets:⏎- name: «word»
token_url=https://«word».dev/oauth/token ¦ auth: true ¦ auth=basic ¦ Authorization: Bearer <token>
Authorization: Bearer ${«CONST»} ¦ Authorization: Bearer $TOKEN ¦ f'Bearer {token}'
'Authorization': `Bearer ${token}` ¦ "Authorization": "Bearer " + token ¦ uses bearer authentication
Basic authentication with «word» ¦ https://«word».dev:8080/@«word»/x ¦ https://user@«word».dev/path
http://localhost:3000/@vite/client ¦ https://unpkg.com/«word»@«n».«n».«n»/x.js
git@github.com:«word»/«word».git ¦ ssh://git@«word».dev:22/«word» ¦ postgres://{user}:{password}@{host}/db
https://user:${PASS}@«word».dev ¦ redis://localhost:6379/0 ¦ https://<user>:<password>@«word».dev
mysql -u root -p «word» ¦ mkdir -p «word»/«word» ¦ docker run -p 8080:80 «word» ¦ docker run -u 1000:1000 «word»
ssh -p 2222 «word» ¦ docker login -u me --password-stdin ¦ curl -u $USER:$PASS https://«word».dev
--password-file «word».txt ¦ --token-ttl «n» ¦ the --password flag is «word» ¦ pass --token to «word»
type="password" name="password" ¦ "password": "Passwort" ¦ "password": "Enter your password"
"forgot": "Forgot password?" ¦ label: Password ¦ "type": "password" ¦ passwordField.value ¦ password?.length
PasswordInput(«word») ¦ validatePassword(password, «word») ¦ setPassword(password) ¦ tokenize("«word» «word»")
tokenizer: gpt-«n» ¦ credentials: include ¦ credentials: 'same-origin' ¦ author: «word» «word»
authors = ["«word»"] ¦ secretary: «word» ¦ compass: «word»«n» ¦ passport: AB«n»«n»«n»
grep -rn '«PRIVATE» KEY' «word» ¦ look for -----BEGIN RSA «PRIVATE» KEY----- in «word» ¦ chmod 600 ~/.ssh/id_«word»
[redacted:password] ¦ [redacted:«word»] ¦ password=[redacted:password] ¦ eyJ«word» ¦ xoxb-«word» ¦ ghp_«word»
AIza«word» ¦ token "«word»" not found ¦ unexpected token '«word»' at «n»
SyntaxError: Unexpected token < in JSON at position «n» ¦ lease token «n» ¦ fencing_token=«n» ¦ 0x«hex16»
#«hex6» ¦ rgba(«n», «n», «n», 0.«n») ¦ «n»:«n»:«n».«n» ¦ 2026-11-30T12:00:«n»Z ¦ ISBN 978-3-16-14841«n»-0
+49 30 «n»«n»«n» ¦ build-«hex12» ¦ branch feature/«word»-«n» ¦ v«n».«n».«n»-rc.«n»+«hex6»
arn:aws:secretsmanager:eu-west-1:123456789012:secret:«word» ¦ secret: arn:aws:iam::1234:role/«word»
token: op://vault/«word»/field ¦ password: vault:secret/data/«word»#pw ¦ password: !vault |
{{ «word».password }} ¦ password: {{ «word»_password }} ¦ <%= ENV['«CONST»'] %>
SECRET=$(openssl rand -hex «n») ¦ API_KEY=$(pass show «word») ¦ password = input('Password: ')
if password == «word»: ¦ assert token != other ¦ assert response.token == token ¦ «b64_16»
checksum = "«sha256»" ¦ snapshot-«uuid».json ¦ /var/lib/«word»/«sha256»/layer.tar
node_modules/.cache/«hex32»/x.js ¦ main.«hex8».chunk.js ¦ _next/static/«hex16»/x.css
com.«word».«word».TokenAuthenticationFilterConfigurationProperties
ThePasswordResetTokenGeneratorFactoryBean«n» ¦ test_password_is_hashed_before_«word»_is_stored
«word»_access_token_expires_in: «n»600
"""
)


_WORDS = split("parser ¦ widget ¦ lambda ¦ harvest ¦ copper ¦ meadow ¦ violin ¦ anchor ¦ basket ¦ candle ¦ engine")
_DIGITS = {
    "sha1": 40,
    "sha256": 64,
    "sha512": 128,
    "md5": 32,
    "hex6": 6,
    "hex8": 8,
    "hex12": 12,
    "hex16": 16,
    "hex32": 32,
}
# What a scanner of this file would take for the real thing, if it stood there in one piece.
_PIECES = {
    "PRIVATE": "PRIVATE",
    "aws-id": "IAIOSFODNN7EXAMPLE",
    "aws-half": "XUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "x": "x" * 9,
}


def lookalikes(seed: int, each: int = 8) -> list[str]:
    """Return texts without a secret, every pattern filled a few times, without repeats."""
    dice = Dice(seed)

    def fill(hole: re.Match[str]) -> str:
        name, word = hole[1], dice.pick(*_WORDS)
        if name in _DIGITS:
            return dice.text(_DIGITS[name], HEX)
        if name.startswith("b64_"):
            return dice.encoded(int(name[4:]))
        number = str(dice.random.randint(1, 99))
        plain = {"word": word, "CONST": f"{word.upper()}_KEY", "n": number, "uuid": dice.uuid()}
        return plain[name] if name in plain else _PIECES[name]

    made = (re.sub("«(.+?)»", fill, pattern) for pattern in _LOOKS for _ in range(each))
    return list(dict.fromkeys(made))
