"""What happened to leases and is not yet told in the log.

The hook has no time to append an event, so it leaves a row here, and the next verb makes events of what waits. A storm
of the same refusal within ten seconds is one row with a count. Nothing is lost: a row goes only in the transaction that
hands it out.
"""

from __future__ import annotations

import json

from bede.leases.clock import Now

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

CONTENDED = "lease_contended"
#: How long refusals of one session by another over one resource are one, in microseconds.
BUCKET = 10_000_000
#: Most rows that are made events of in one go.
_BATCH = 1000
#: Most resources that one event lists, and most that its summary names.
_LISTED, _NAMED = 256, 3


def put(connection: sqlite3.Connection, kind: str, agent: str, session: str, now: Now, body: dict[str, Any]) -> None:
    """Leave word of something that happened once."""
    row = (kind, agent, session, now.ticks // BUCKET, now.wall, now.wall, json.dumps(body))
    connection.execute(
        "INSERT INTO lease_outbox (kind, agent, session, holder, resource, bucket, count, first, last, body)"
        " VALUES (?, ?, ?, '', '', ?, 1, ?, ?, ?)",
        row,
    )


def contend(
    connection: sqlite3.Connection,
    wanting: tuple[str, str],
    holding: tuple[str, str],
    resource: str,
    now: Now,
    body: dict[str, Any],
) -> None:
    """Leave word that one session was refused because of another; within ten seconds the same again is only counted."""
    what = (CONTENDED, *wanting, json.dumps(holding), resource)
    row = (*what, now.ticks // BUCKET, now.wall, now.wall, json.dumps(body))
    connection.execute(
        "INSERT INTO lease_outbox (kind, agent, session, holder, resource, bucket, count, first, last, body)"
        " VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?)"
        " ON CONFLICT (kind, agent, session, holder, resource, bucket) WHERE kind = 'lease_contended'"
        " DO UPDATE SET count = count + 1, last = excluded.last",
        row,
    )


def is_due(connection: sqlite3.Connection, now: Now) -> bool:
    """Tell whether anything waits that may be told."""
    query = "SELECT 1 FROM lease_outbox WHERE kind <> ? OR bucket <> ? LIMIT 1"
    return connection.execute(query, (CONTENDED, now.ticks // BUCKET)).fetchone() is not None


def drafts(connection: sqlite3.Connection, now: Now) -> list[dict[str, Any]]:
    """Take out what may be told, in the order in which it happened: kind, agent, time and body of each event to be.

    Refusals wait until their ten seconds are over, so that they are told once.
    """
    rows = connection.execute(
        "SELECT id, kind, agent, session, holder, resource, count, first, last, body FROM lease_outbox"
        " WHERE kind <> ? OR bucket <> ? ORDER BY id LIMIT ?",
        (CONTENDED, now.ticks // BUCKET, _BATCH),
    ).fetchall()
    connection.executemany("DELETE FROM lease_outbox WHERE id = ?", [row[:1] for row in rows])
    return [_draft(*row[1:]) for row in rows]


def waiting(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return everything that is not told yet as `drafts` does, with the refusals of these seconds; all of it stays."""
    rows = connection.execute(
        "SELECT kind, agent, session, holder, resource, count, first, last, body FROM lease_outbox ORDER BY id LIMIT ?",
        (_BATCH,),
    ).fetchall()
    return [_draft(*row) for row in rows]


def unsay(connection: sqlite3.Connection, session: str) -> None:
    """Take what a session was asked out of refusals that are not told yet."""
    rows = connection.execute("SELECT id, holder, body FROM lease_outbox WHERE kind = ?", (CONTENDED,)).fetchall()
    for number, holder, told in rows:
        if json.loads(holder)[1] == session:
            body = json.dumps({**json.loads(told), "prompt": ""})
            connection.execute("UPDATE lease_outbox SET body = ? WHERE id = ?", (body, number))


def _draft(
    kind: str, agent: str, session: str, holder: str, resource: str, count: int, first: int, last: int, told: str
) -> dict[str, Any]:
    body: dict[str, Any] = {"session": session, **json.loads(told)}
    if kind == CONTENDED:
        by, by_session = json.loads(holder)
        body |= {"resources": [resource], "holder": by, "holder_session": by_session}
        body |= {"count": count, "first": first, "last": last}
    resources = body["resources"]
    if len(resources) > _LISTED:
        body |= {"resources": resources[:_LISTED], "left_out": len(resources) - _LISTED}
    body["summary"] = _summary(kind, resources, body)
    return {"kind": kind, "agent": agent, "at": first, "body": {key: value for key, value in body.items() if value}}


def _summary(kind: str, resources: list[str], body: dict[str, Any]) -> str:
    """Say in one line what happened."""
    more = f" and {len(resources) - _NAMED} more" if len(resources) > _NAMED else ""
    what = ", ".join(resources[:_NAMED]) + more
    purpose = f" for: {body['purpose']}" if body.get("purpose") else ""
    if kind == CONTENDED:
        times = f" ({body['count']} times)" if body["count"] > 1 else ""
        return f"refused {what}, held by {body['holder']}{purpose}{times}"
    if kind == "lease_handed_over":
        return f"handed {what} over to {body['to']}{purpose}"
    return f"{kind.removeprefix('lease_')} {what}{purpose}"
