"""The web app: pages without a build step, a small JSON interface, and a token for everybody.

The token stands behind the ``#`` of a personal link, which browsers never send: the page puts it into the header of
each request, so that no log, no ``Referer`` and no page of another site ever has it, and there is no cookie to misuse.
"""

# No `from __future__ import annotations` here: the framework reads the hints of functions inside create_app, where
# they name what only exists there.

import hashlib
import hmac
import threading
import time
from dataclasses import asdict
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from equipoise.review.asking import key_of, read_answers, shown_item, shown_sheet, spoken
from equipoise.review.guard import Buckets, Guard
from equipoise.review.preparing import sheet_of
from equipoise.review.questions import NOTE_LENGTH, Questionnaire
from equipoise.review.store import ReviewStore
from equipoise.review.summary import summary_of

ASSETS = files("equipoise.review") / "assets"
_PAGES = {"/": "review.html", "/organiser": "organiser.html"}
_MEDIA = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
_LONGEST = 3600.0
_FRESH = 2.0
"""Seconds for which a summary is not computed again."""
_BIGGEST = 2**53

_Text = Annotated[str, Field(max_length=NOTE_LENGTH)]
_Token = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


class Said(BaseModel):
    """What an annotator says of one item."""

    model_config = ConfigDict(extra="forbid", strict=True)

    item: Annotated[int, Field(ge=1, le=_BIGGEST)]
    answers: Annotated[dict[Annotated[str, Field(max_length=80)], _Text | list[_Text]], Field(max_length=600)] = {}
    skip: bool = False
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class Nothing(BaseModel):
    """An empty request."""

    model_config = ConfigDict(extra="forbid")


class Refused(BaseModel):
    """Why a request was not done."""

    detail: Any


_REFUSED: dict[int | str, dict[str, Any]] = {
    status: {"model": Refused} for status in (400, 401, 403, 404, 408, 413, 415, 421, 422, 429)
}


def create_app(store: ReviewStore, organiser: str, hosts: frozenset[str]) -> Guard:
    """The app of a review; ``organiser`` is the token of the organiser's page, ``hosts`` its own names."""
    sheet = sheet_of(store)
    app = FastAPI(title="Equipoise review", docs_url=None, redoc_url=None, openapi_url=None, responses=_REFUSED)
    door = _Door(store, organiser)
    glimpse = _Glimpse(store)

    @app.get("/api/task")
    async def task(name: Annotated[str, Depends(door.annotator)]) -> dict[str, Any]:
        """What is asked, and how far one is."""
        return {"name": name, "questionnaire": shown_sheet(sheet), **asdict(store.progress(name))}

    @app.get("/api/next")
    def next_item(name: Annotated[str, Depends(door.annotator)]) -> dict[str, Any]:
        """The next item in one's own order."""
        return _next(store, sheet, name)

    @app.post("/api/answer")
    def answer(said: Said, name: Annotated[str, Depends(door.annotator)]) -> dict[str, Any]:
        """Keep an answer, which is on disk before this is confirmed, and show the next item."""
        if not store.rows("SELECT 1 FROM items WHERE id = ?", said.item):
            raise HTTPException(404, "this item is not among yours")
        try:
            answers = {} if said.skip else read_answers(sheet, store.item(said.item)["pictures"], said.answers)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        seconds = None if said.seconds is None else min(said.seconds, _LONGEST)
        if not store.record(name, said.item, answers, skipped=said.skip, seconds=seconds):
            raise HTTPException(404, "this item is not among yours")
        return {"saved": said.item, **_next(store, sheet, name)}

    @app.post("/api/undo")
    def undo(nothing: Nothing, name: Annotated[str, Depends(door.annotator)]) -> dict[str, Any]:
        """Take the last answer back and show its item again."""
        taken = store.undo(name)
        if taken is None:
            raise HTTPException(404, "there is nothing to take back")
        answers = {
            key_of(question, picture): spoken(sheet, question, text) for (question, picture), text in taken[1].items()
        }
        return {"undone": taken[0], "said": answers, **_next(store, sheet, name)}

    @app.get("/api/pictures/{number}", responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}})
    async def picture(  # read at once: handing a short read to another thread takes longer than the read
        number: Annotated[int, Path(ge=1, le=_BIGGEST)], name: Annotated[str, Depends(door.annotator)]
    ) -> Response:
        """One picture of the review, by its number."""
        stored = store.picture(number)
        if stored is None:
            raise HTTPException(404, "there is no such picture")
        return Response(stored[1], media_type=stored[0])

    @app.get("/api/organiser")
    def organise(_: Annotated[None, Depends(door.organiser)]) -> dict[str, Any]:
        """Agreement, gold, speed, and who still has what to do."""
        return {"title": sheet.title, **glimpse.take()}

    @app.exception_handler(RequestValidationError)
    def unreadable(_: Request, error: RequestValidationError) -> JSONResponse:
        """Say what was wrong, without sending back what was sent."""
        first = error.errors()[0]
        place = ".".join(str(part)[:80] for part in first["loc"][1:])
        return JSONResponse({"detail": f"{place}: {first['msg']}" if place else str(first["msg"])}, 422)

    _add_pages(app)
    return Guard(app, hosts)


def _add_pages(app: FastAPI) -> None:
    """The pages and what they load: files of the package, listed once."""
    content = {f"/assets/{file.name}": file.read_bytes() for file in ASSETS.iterdir() if file.is_file()}
    content |= {place: (ASSETS / name).read_bytes() for place, name in _PAGES.items()}

    def page(place: str) -> Any:
        name = _PAGES.get(place, place)
        media = _MEDIA["." + name.rpartition(".")[2]]
        return lambda: Response(content[place], media_type=media)

    for place in content:
        app.get(place, include_in_schema=False)(page(place))


class _Door:
    """Who is asking: tokens are compared in constant time, and wrong ones cost time."""

    def __init__(self, store: ReviewStore, organiser: str) -> None:
        self.store = store
        self._organiser = hashlib.sha256(organiser.encode()).digest()
        self._failures = Buckets(rate=1 / 3, burst=10)
        self._requests = Buckets(rate=40, burst=200)

    async def annotator(self, request: Request, given: _Token) -> str:
        """The name that goes with the token, or 401; after many wrong ones 429."""
        name = self.store.annotator_of(given.credentials) if given is not None else None
        if name is None:
            raise self._stranger(request)
        if not self._requests.take(name):
            raise HTTPException(429, "too many requests; wait a moment", {"Retry-After": "1"})
        return name

    async def organiser(self, request: Request, given: _Token) -> None:
        """Let the organiser pass, and nobody else."""
        token = hashlib.sha256((given.credentials if given else "").encode("utf-8", "surrogatepass")).digest()
        if not hmac.compare_digest(token, self._organiser):
            raise self._stranger(request)

    def _stranger(self, request: Request) -> HTTPException:
        # Only wrong tokens are counted: people may share an address, and a guesser must not lock them out.
        address = request.client.host if request.client else ""
        if self._failures.take(address):
            return HTTPException(401, "this link does not work (any more)", {"WWW-Authenticate": "Bearer"})
        return HTTPException(429, "too many wrong links; wait a minute", {"Retry-After": "60"})


class _Glimpse:
    """The organiser's summary, computed by one request at a time and at most every other second."""

    def __init__(self, store: ReviewStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._at = -_FRESH
        self._kept: dict[str, Any] = {}

    def take(self) -> dict[str, Any]:
        with self._lock:
            if time.monotonic() - self._at > _FRESH:
                self._kept = summary_of(self._store).plain()
                self._at = time.monotonic()
            return self._kept


def _next(store: ReviewStore, sheet: Questionnaire, name: str) -> dict[str, Any]:
    number = store.next_item(name)
    shown = None if number is None else shown_item(store, sheet, name, number)
    return {"next": shown, **asdict(store.progress(name))}
