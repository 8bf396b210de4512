"""What each session is about: the last thing it was asked that means something, and the files it has touched.

Whoever is refused a file is told this of its holder. Texts come in redacted; how long one may be is kept here.
"""

from __future__ import annotations

import re

from bede.leases.clock import DAY, Now

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

#: Characters kept of a prompt, and files told of a session.
LONGEST, TOUCHED = 1000, 20
#: How long a session that does nothing is remembered, in microseconds.
KEPT = 30 * DAY
#: So many words at most make a prompt that says nothing.
_FEW = 6
_WORD = r"[^\W_]+(?:['’][^\W_]+)*"
#: Words that only answer, greet or urge on: English, German, French, Spanish, Portuguese, Italian, Dutch, Polish,
#: Turkish, Russian, Ukrainian, Hindi, Arabic.
_EMPTY = """a again ahead all alright and as absolutely awesome cool continue correct do done exactly fine go going good
    great hello hey hi i is it just keep lets let's lgtm looks me more need next nice no nope now of ok okay on once
    only perfect please proceed resume right same sounds start still sure thank thanks that that's the then there this
    thx to try um us well with y ya yeah yep yes you
    alles bitte danke doch gut hallo ja jetzt jo klar los mach machen mal nein nochmal passt richtig schön so super
    und weiter weitermachen genau einverstanden
    accord bien bonjour continuer continuez d'accord encore merci non oui parfait poursuis s'il salut si te vas vas-y
    vous y
    adelante bueno claro continúa continua dale de gracias hola listo sí sigue siga vale perfecto por favor otra vez
    continue obrigado obrigada olá pode isso sim prossiga segue vai
    avanti bene certo ciao continua grazie perfetto prego procedi sì va
    akkoord bedankt doorgaan ga door goed graag hoi prima verder nee
    tak dalej dobrze dzięki kontynuuj nie proszę super
    devam et evet hayır lütfen tamam teşekkürler
    да давай дальше и ладно нет ок окей пожалуйста привет продолжай продолжить спасибо хорошо ага
    так далі продовжуй дякую добре
    हाँ हां जारी रखें ठीक है धन्यवाद
    نعم استمر تمام حسنا شكرا لا أكمل واصل"""
#: The same in scripts without spaces: what may be taken away before nothing is left.
_DENSE = (
    "继续|繼續|好的|可以|是的|没问题|沒問題|请|請|谢谢|謝謝|你好|对|對|好|行|是|嗯|吧|了|做|下去|下一步|"
    "はい|続けて|つづけて|続行|お願いします|ください|ありがとう|いいえ|どうぞ|うん|いいです|進めて|"
    "네|예|응|계속|해주세요|해줘|하세요|진행|좋아요|좋아|고마워|감사합니다|아니요"
)


def filler(prompt: str) -> bool:
    """Tell whether a prompt says nothing of what its session is about: "continue", "yes", "ok go on", "/compact"."""
    text = prompt.strip()
    if len(text) > 60:
        return False
    if text.startswith("/") and len(text.split()) == 1 and text.count("/") == 1:
        return True
    words = re.findall(_WORD, text.casefold())
    if len(words) > _FEW:
        return False
    empty = {*_EMPTY.split(), ""}
    return all(word in empty or len(word) == 1 or word.isdecimal() or re.sub(_DENSE, "", word) == "" for word in words)


def note_prompt(
    connection: sqlite3.Connection,
    agent: str,
    session: str,
    prompt: str,
    now: Now,
    *,
    cwd: str = "",
    transcript: str = "",
) -> None:
    """Remember what a session was asked, unless it says nothing, and where it is; the prompt is redacted already."""
    if not session:
        return
    said = "" if filler(prompt) else prompt.strip()[:LONGEST]
    connection.execute(
        "INSERT INTO lease_session (agent, session, prompt, prompted, cwd, transcript, started, seen)"
        " VALUES (?1, ?2, ?3, iif(?3 = '', 0, ?4), ?5, ?6, ?4, ?4)"
        " ON CONFLICT (agent, session) DO UPDATE SET seen = ?4,"
        " prompt = iif(?3 = '', prompt, ?3), prompted = iif(?3 = '', prompted, ?4),"
        " cwd = iif(?5 = '', cwd, ?5), transcript = iif(?6 = '', transcript, ?6)",
        (agent, session, _sayable(said), now.wall, _sayable(cwd), _sayable(transcript)),
    )


def prompt_of(connection: sqlite3.Connection, agent: str, session: str) -> tuple[str, int]:
    """Return the last prompt of a session that meant something, and when it was; ('', 0) where none is known."""
    query = "SELECT prompt, prompted FROM lease_session WHERE agent = ? AND session = ?"
    row = connection.execute(query, (agent, session)).fetchone()
    return (row[0], row[1]) if row else ("", 0)


def transcript_of(connection: sqlite3.Connection, agent: str, session: str) -> str:
    """Return the file in which a session is written down, '' where it was never told."""
    query = "SELECT transcript FROM lease_session WHERE agent = ? AND session = ?"
    row = connection.execute(query, (agent, session)).fetchone()
    return str(row[0]) if row else ""


def agent_of(connection: sqlite3.Connection, session: str) -> str:
    """Return whose session it is that has a name, '' where nobody's or several agents' is."""
    query = (
        "SELECT agent FROM lease_session WHERE session = ?1 UNION SELECT agent FROM lease WHERE session = ?1"
        " UNION SELECT agent FROM lease_waiter WHERE session = ?1"
    )
    found = connection.execute(query, (session,)).fetchall()
    return str(found[0][0]) if len(found) == 1 else ""


def note_touch(connection: sqlite3.Connection, agent: str, session: str, resource: str, now: Now) -> None:
    """Remember that a session has changed a file."""
    connection.execute(
        "INSERT INTO lease_touch (agent, session, resource, count, first, last) VALUES (?1, ?2, ?3, 1, ?4, ?4)"
        " ON CONFLICT (agent, session, resource) DO UPDATE SET count = count + 1, last = ?4",
        (agent, session, resource, now.wall),
    )


def touched(connection: sqlite3.Connection, agent: str, session: str) -> list[str]:
    """Return the files that a session has changed, the newest first."""
    query = "SELECT resource FROM lease_touch WHERE agent = ? AND session = ? ORDER BY last DESC, resource LIMIT ?"
    return [row[0] for row in connection.execute(query, (agent, session, TOUCHED))]


def touches(
    connection: sqlite3.Connection, resource: str, limit: int, *, is_folder: bool = False
) -> list[tuple[str, str, int, int]]:
    """Return who has changed a file, or anything in a folder: agent, session, how often, when last, latest first."""
    below = resource.rstrip("/") + "/"
    query = (
        "SELECT agent, session, sum(count), max(last) FROM lease_touch"
        " WHERE resource = ?1 OR (?2 AND (?1 = '.' OR substr(resource, 1, length(?3)) = ?3))"
        " GROUP BY agent, session ORDER BY max(last) DESC LIMIT ?4"
    )
    rows = connection.execute(query, (resource, is_folder, below, limit))
    return [(agent, session, count, last) for agent, session, count, last in rows]


def touchers(connection: sqlite3.Connection, resources: Sequence[str], since: int) -> list[tuple[str, str]]:
    """Return the agents and sessions that have changed one of these files since a time, the latest first."""
    marks = ",".join("?" * len(resources))
    query = (
        f"SELECT agent, session FROM lease_touch WHERE last >= ? AND resource IN ({marks})"
        " GROUP BY agent, session ORDER BY max(last) DESC"
    )
    return [(row[0], row[1]) for row in connection.execute(query, (since, *resources))]


def unsay(connection: sqlite3.Connection, session: str) -> None:
    """Drop what a session was asked, for what was said in it is to be gone."""
    connection.execute("UPDATE lease_session SET prompt = '', prompted = 0 WHERE session = ?", (session,))


def forget(connection: sqlite3.Connection, now: Now) -> None:
    """Drop what is known of sessions that have been silent for a month."""
    oldest = now.wall - KEPT
    connection.execute("DELETE FROM lease_session WHERE seen < ?", (oldest,))
    connection.execute("DELETE FROM lease_touch WHERE last < ?", (oldest,))


def _sayable(text: str) -> str:
    """Return a text that a column can hold; halves of surrogate pairs are none."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
