"""Answers in one SQLite file: one transaction per answer, on disk before the annotator sees it confirmed.

The file is in WAL mode with ``synchronous=FULL``: a commit returns when the operating system says that it is on the
disk, so what was confirmed survives ``kill -9`` and a power cut. Tokens are kept as hashes. Nothing that happened is
forgotten: ``history`` holds every answer, change and undo.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.review.dealing import dealt, place_of

_SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE pictures (id INTEGER PRIMARY KEY, image_id TEXT UNIQUE NOT NULL, media TEXT, content BLOB, problem TEXT,
  flagged INTEGER NOT NULL, label TEXT, width INTEGER, height INTEGER) STRICT;
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, pictures TEXT NOT NULL, told TEXT NOT NULL,
  texts TEXT NOT NULL, shared INTEGER NOT NULL, gold TEXT) STRICT;
CREATE TABLE annotators (name TEXT PRIMARY KEY, token BLOB, made REAL NOT NULL, revoked REAL) STRICT;
CREATE TABLE assigned (annotator TEXT NOT NULL REFERENCES annotators, item INTEGER NOT NULL REFERENCES items,
  place INTEGER NOT NULL, shown REAL, PRIMARY KEY (annotator, item)) STRICT;
CREATE TABLE done (annotator TEXT NOT NULL, item INTEGER NOT NULL, skipped INTEGER NOT NULL, seconds REAL,
  at REAL NOT NULL, PRIMARY KEY (annotator, item), FOREIGN KEY (annotator, item) REFERENCES assigned) STRICT;
CREATE TABLE answers (annotator TEXT NOT NULL, item INTEGER NOT NULL, question TEXT NOT NULL, picture INTEGER NOT NULL,
  answer TEXT NOT NULL, PRIMARY KEY (annotator, item, question, picture),
  FOREIGN KEY (annotator, item) REFERENCES done ON DELETE CASCADE) STRICT;
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, annotator TEXT NOT NULL,
  item INTEGER NOT NULL, what TEXT NOT NULL, told TEXT NOT NULL) STRICT;
"""
WHOLE = 0
"""The picture of an answer that is about the whole item."""
_NAME = re.compile(r"[^\W_][\w .-]{0,39}\Z")


@dataclass(frozen=True)
class Annotator:
    """Somebody who looks: a chosen name, and whether the link still works."""

    name: str
    revoked: bool = False


@dataclass(frozen=True)
class AnnotatorProgress:
    """How far somebody is."""

    done: int
    total: int


def check_name(name: str) -> str:
    """A name that somebody chose, of at most 40 letters, digits, spaces and ``. _ -``; anything else is refused.

    >>> check_name(" Ana B. ")
    'Ana B.'
    """
    chosen = " ".join(name.split())
    if not _NAME.match(chosen):
        raise InputError(f"annotator name {name!r}: use 1 to 40 letters, digits, spaces and . _ - (a nickname will do)")
    return chosen


class ReviewStore:
    """The file of one review; every thread has its own connection, and one writes at a time."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(f"{path.parent}: no review here ({path.name} is missing)")
        self.path = path
        self._own = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._writing = threading.Lock()

    @classmethod
    def create(
        cls,
        path: Path,
        settings: Mapping[str, Any],
        pictures: Iterator[Sequence[Any]],
        items: Sequence[Sequence[Any]],
    ) -> ReviewStore:
        """A new file with its settings, pictures and items: rows as the tables above hold them."""
        connection = _connected(path)
        try:
            connection.executescript(_SCHEMA)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO settings VALUES (?, ?)", [(name, json.dumps(value)) for name, value in settings.items()]
            )
            connection.executemany("INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", pictures)
            connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?)", items)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()
        return cls(path)

    def close(self) -> None:
        """Let the file go; the last one to do so merges the log into it."""
        with self._writing:
            for connection in self._open:
                connection.close()
            self._open.clear()
            self._own = threading.local()

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query gives."""
        return self._connection().execute(query, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, on disk when the block ends; nothing of it is kept if the block fails."""
        connection = self._connection()
        with self._writing:  # waiting here is fair; SQLite's own waiting sleeps
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def setting(self, name: str, default: Any = None) -> Any:
        """One of the settings that the review was made with; ``default`` where an earlier version kept none."""
        rows = self.rows("SELECT value FROM settings WHERE name = ?", name)
        return json.loads(rows[0][0]) if rows else default

    @cached_property
    def seed(self) -> int:
        """The seed of orders; it never changes."""
        return int(self.setting("plan")["seed"])

    # people and their links

    def annotators(self) -> list[Annotator]:
        """Everybody, in the order in which they came."""
        return [
            Annotator(n, r is not None)
            for n, r in self.rows("SELECT name, revoked FROM annotators ORDER BY made, rowid")
        ]

    def add(self, *names: str) -> dict[str, str]:
        """Let people in, deal out what nobody has begun, and return the tokens of their links; they are not kept."""
        tokens = {check_name(name): secrets.token_urlsafe(24) for name in names}
        with self.writing() as file:
            for name, token in tokens.items():
                if file.execute("SELECT 1 FROM annotators WHERE name = ? COLLATE NOCASE", (name,)).fetchone():
                    raise InputError(f"there is somebody called {name!r} already; choose another name")
                file.execute("INSERT INTO annotators VALUES (?, ?, ?, NULL)", (name, _hashed(token), time.time()))
            self._deal(file)
        return tokens

    def new_link(self, name: str) -> str:
        """A new token for somebody who is there; the old link stops working."""
        token = secrets.token_urlsafe(24)
        with self.writing() as file:
            self._known(file, name)
            file.execute("UPDATE annotators SET token = ?, revoked = NULL WHERE name = ?", (_hashed(token), name))
            self._deal(file)
        return token

    def revoke(self, name: str) -> None:
        """Stop somebody's link; the answers stay, and what was not begun goes to the others."""
        with self.writing() as file:
            self._known(file, name)
            file.execute("UPDATE annotators SET token = NULL, revoked = ? WHERE name = ?", (time.time(), name))
            file.execute(
                "DELETE FROM assigned WHERE annotator = ? AND NOT EXISTS (SELECT 1 FROM done WHERE "
                "done.annotator = assigned.annotator AND done.item = assigned.item)",
                (name,),
            )
            self._deal(file)

    def annotator_of(self, token: str) -> str | None:
        """Whose token this is; every hash is compared, each in constant time."""
        wanted = _hashed(token)
        owner = None
        for name, hashed in self.rows("SELECT name, token FROM annotators WHERE token IS NOT NULL"):
            if hmac.compare_digest(wanted, hashed):
                owner = name
        return owner

    def _known(self, file: sqlite3.Connection, name: str) -> None:
        names = [n for (n,) in file.execute("SELECT name FROM annotators")]
        if name not in names:
            raise UnknownNameError("annotator", name, names)

    def _deal(self, file: sqlite3.Connection) -> None:
        """Give out anew what nobody has begun."""
        plan = json.loads(file.execute("SELECT value FROM settings WHERE name = 'plan'").fetchone()[0])
        file.execute(
            "DELETE FROM assigned WHERE shown IS NULL AND NOT EXISTS (SELECT 1 FROM done WHERE "
            "done.annotator = assigned.annotator AND done.item = assigned.item)"
        )
        held: dict[str, set[int]] = {}
        for name, item in file.execute("SELECT annotator, item FROM assigned"):
            held.setdefault(name, set()).add(item)
        items = file.execute("SELECT id, shared FROM items ORDER BY id").fetchall()
        people = [
            n for (n,) in file.execute("SELECT name FROM annotators WHERE token IS NOT NULL ORDER BY made, rowid")
        ]
        given = dealt(
            [i for i, _ in items],
            people,
            held,
            shared=[i for i, shared in items if shared],
            raters=plan["raters"],
            seed=plan["seed"],
        )
        rows = [(name, i, place_of(plan["seed"], name, i), None) for name, those in given.items() for i in those]
        file.executemany("INSERT INTO assigned VALUES (?, ?, ?, ?)", rows)

    # looking and answering

    def progress(self, annotator: str) -> AnnotatorProgress:
        """How many of this annotator's items are done."""
        [(done, total)] = self.rows(
            "SELECT (SELECT count(*) FROM done WHERE annotator = ?1), "
            "(SELECT count(*) FROM assigned WHERE annotator = ?1)",
            annotator,
        )
        return AnnotatorProgress(done, total)

    def next_item(self, annotator: str) -> int | None:
        """The next item in this annotator's order; ``None`` when all are done."""
        row = self._connection().execute(_NEXT, (annotator,)).fetchone()
        if row is not None and row[1] is None:
            with self.writing() as file:
                return _shown_next(file, annotator)
        return None if row is None else int(row[0])

    def item(self, number: int) -> dict[str, Any]:
        """What an item shows."""
        [(name, pictures, told, texts)] = self.rows(
            "SELECT name, pictures, told, texts FROM items WHERE id = ?", number
        )
        return {
            "name": name,
            "pictures": json.loads(pictures),
            "told": json.loads(told),
            "texts": json.loads(texts),
        }

    def picture(self, number: int) -> tuple[str, bytes] | None:
        """The media type and the bytes of a picture; ``None`` where there is none that can be shown."""
        rows = self.rows("SELECT media, content FROM pictures WHERE id = ? AND content IS NOT NULL", number)
        return (str(rows[0][0]), bytes(rows[0][1])) if rows else None

    def record(
        self,
        annotator: str,
        item: int,
        answers: Mapping[tuple[str, int], str],
        *,
        skipped: bool = False,
        seconds: float | None = None,
    ) -> bool:
        """Keep what somebody said of an item; on disk when this returns. ``False`` if it is not theirs.

        Sent twice, it is kept once: an answer replaces the earlier one to the same item.
        """
        with self.writing() as file:
            mine = (annotator, item)
            if not file.execute("SELECT 1 FROM assigned WHERE annotator = ? AND item = ?", mine).fetchone():
                return False
            _keep(file, mine, answers, skipped, seconds, "skip" if skipped else "answer")
            _shown_next(file, annotator)  # in the same transaction: writing to the disk is what takes time
        return True

    def take_in(self, said: Mapping[tuple[str, int], tuple[Mapping[tuple[str, int], str], float | None]]) -> None:
        """Keep what people said elsewhere, all of it or nothing; whoever is not known is added without a link."""
        with self.writing() as file:
            now = time.time()
            known = {name for (name,) in file.execute("SELECT name FROM annotators")}
            for name in dict.fromkeys(name for name, _ in said if name not in known):
                twin = file.execute("SELECT name FROM annotators WHERE name = ? COLLATE NOCASE", (name,)).fetchone()
                if twin:
                    raise InputError(
                        f"there is somebody called {twin[0]!r}, and {name!r} differs in case alone; use one name"
                    )
                file.execute("INSERT INTO annotators VALUES (?, NULL, ?, ?)", (check_name(name), now, now))
            for mine, (answers, seconds) in said.items():
                file.execute("INSERT OR IGNORE INTO assigned VALUES (?, ?, 0, ?)", (*mine, now))
                _keep(file, mine, answers, not answers, seconds, "import")

    def undo(self, annotator: str) -> tuple[int, dict[tuple[str, int], str]] | None:
        """Take the last answer back, and return its item and what was said; ``None`` if there is none."""
        with self.writing() as file:
            last = file.execute(
                "SELECT item FROM done WHERE annotator = ? ORDER BY at DESC, rowid DESC LIMIT 1", (annotator,)
            ).fetchone()
            if last is None:
                return None
            mine = (annotator, int(last[0]))
            said = file.execute(
                "SELECT question, picture, answer FROM answers WHERE annotator = ? AND item = ?", mine
            ).fetchall()
            file.execute("DELETE FROM done WHERE annotator = ? AND item = ?", mine)
            file.execute("UPDATE assigned SET shown = 0 WHERE annotator = ? AND item = ?", mine)  # it is next again
            file.execute(
                "INSERT INTO history (at, annotator, item, what, told) VALUES (?, ?, ?, 'undo', ?)",
                (time.time(), *mine, json.dumps([list(row) for row in said])),
            )
        return mine[1], {(question, picture): answer for question, picture, answer in said}

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = _connected(self.path)
            self._open.append(connection)
        return connection


_NEXT = """
SELECT item, shown FROM assigned WHERE annotator = ?1 AND NOT EXISTS (
  SELECT 1 FROM done WHERE done.annotator = ?1 AND done.item = assigned.item)
ORDER BY shown IS NULL, shown, place LIMIT 1
"""


def _shown_next(file: sqlite3.Connection, annotator: str) -> int | None:
    """The next item, which is now this annotator's to answer, inside a transaction."""
    row = file.execute(_NEXT, (annotator,)).fetchone()
    if row is None:
        return None
    if row[1] is None:
        now = (time.time(), annotator, row[0])
        file.execute("UPDATE assigned SET shown = ? WHERE annotator = ? AND item = ?", now)
    return int(row[0])


def _keep(
    file: sqlite3.Connection,
    mine: tuple[str, int],
    answers: Mapping[tuple[str, int], str],
    skipped: bool,
    seconds: float | None,
    what: str,
) -> None:
    """Replace what is kept of somebody's item, inside a transaction."""
    now = time.time()
    rows = [(question, picture, answer) for (question, picture), answer in answers.items()]
    file.execute("DELETE FROM done WHERE annotator = ? AND item = ?", mine)
    file.execute("INSERT INTO done VALUES (?, ?, ?, ?, ?)", (*mine, int(skipped), seconds, now))
    file.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", [(*mine, *row) for row in rows])
    file.execute(
        "INSERT INTO history (at, annotator, item, what, told) VALUES (?, ?, ?, ?, ?)",
        (now, *mine, what, json.dumps(rows)),
    )


def _connected(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {setting}")
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot be opened as a review ({error})") from None
    return connection


def _hashed(token: str) -> bytes:
    """The hash of a token: it has 192 random bits, so that no salt and no slow hash is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
