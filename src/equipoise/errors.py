"""The errors a user can do something about.

Every message is one sentence that says what is wrong and what to do. The command line prints it without a
traceback and exits with code 2 (``--debug`` shows the traceback).
"""

import errno
import json
import os
import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from itertools import islice
from urllib.parse import unquote, urlsplit


class InputError(ValueError):
    """The caller's input cannot be used; the message names it and says what would do."""


class OtherSettingsError(InputError):
    """Something unfinished was begun with other settings than those given now."""


class UnknownNameError(InputError):
    """A name that nothing is registered under; the message offers the closest names.

    >>> print(UnknownNameError("lexicon", "gensynt", ["gensynth_code", "lic"]))
    there is no lexicon named 'gensynt'; did you mean 'gensynth_code'?
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = closest(name, names)
        if near:
            hint = "did you mean " + " or ".join(repr(n) for n in near) + "?"
        elif names:
            hint = "known: " + ", ".join(names)
        else:
            hint = f"no {kind} is registered"
        super().__init__(f"there is no {kind} named {name!r}; {hint}")


class MissingExtraError(InputError):
    """Something needs a package that is not installed; the message holds the pip line.

    >>> print(MissingExtraError("the ray engine", "ray"))  # doctest: +ELLIPSIS
    the ray engine needs packages that are not installed; install them with: pip install ...[ray]'
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs packages that are not installed; install them with: {install_line(extra)}")
        self.extra = extra


def install_line(extra: str) -> str:
    """The line that installs an extra as this package was installed: from its checkout, or by name."""
    from importlib import metadata  # slow to import, and only needed where something is missing

    try:
        origin = json.loads(metadata.distribution("equipoise").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError, OSError):
        origin = {}
    place = unquote(urlsplit(str(origin.get("url", ""))).path) if str(origin.get("url", "")).startswith("file:") else ""
    if not place:
        return f"pip install 'equipoise[{extra}]'"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{place}[{extra}]'"


def closest(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """The known names most like ``name``, best first, ignoring case and the kind of dash.

    >>> closest("Gensynth-Code", ["gensynth_code", "gensynth_paper", "lic"], n=1)
    ['gensynth_code']
    """

    def plain(text: str) -> str:
        return text.lower().replace("-", "_")

    by_plain: dict[str, str] = {}
    for candidate in known:
        by_plain.setdefault(plain(candidate), candidate)
    wanted = plain(name)
    matches = get_close_matches(wanted, by_plain, n=n, cutoff=0.6)
    matches += [p for p in by_plain if wanted and (p.startswith(wanted) or wanted in p) and p not in matches]
    return [by_plain[p] for p in matches[:n]]


def like_it(path: str | os.PathLike[str]) -> str:
    """A question that names what is there in place of a path that is not, to be put behind a sentence; or nothing.

    >>> like_it("/no/such/folder")
    ''
    """
    near = nearest(path)
    return f"; did you mean {near}?" if near else ""


def nearest(path: str | os.PathLike[str]) -> str:
    """The path of what is there that is most like a path that is not; empty where nothing is."""
    folder, name = os.path.split(os.fspath(path).rstrip("/"))
    try:
        there = sorted(entry.name for entry in islice(os.scandir(folder or "."), 2000) if entry.name[0] != ".")
    except (OSError, ValueError):
        return ""
    near = [other for other in closest(name, there) if _stems_alike(name, other)] if len(name) > 2 else []
    return os.path.join(folder, near[0]) if near else ""


def _stems_alike(name: str, other: str) -> bool:
    """Whether two names of files are alike without their endings, which alone say little.

    >>> _stems_alike("peple.csv", "people.csv"), _stems_alike("nofile.csv", "broken.csv")
    (True, False)
    """
    mine, theirs = (os.path.splitext(text)[0].lower().replace("-", "_") for text in (name, other))
    return mine in theirs or SequenceMatcher(None, mine, theirs).ratio() >= _ALIKE


_ALIKE = 0.7


def one_line(error: BaseException, most: int = 300) -> str:
    """The message of an error on one line of at most so many characters; its kind if it says nothing.

    >>> one_line(OSError("no\\n  such file"), most=7), one_line(KeyError())
    ('no such', 'KeyError')
    """
    return " ".join(str(error).split())[:most] or type(error).__name__


DISK_IS_FULL = "the disk is full"
_FULL = f"{DISK_IS_FULL}; free some space and run it again"
_SYSTEM = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "the file would be larger than this file system holds; write to another disk",
    errno.EROFS: "the file system is read-only; write to a folder elsewhere",
    errno.ENAMETOOLONG: "the name is too long; give a shorter one",
    errno.ELOOP: "links lead in a circle; give the file itself",
    errno.EMFILE: "too many files are open; close some programs, or raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine; close some programs",
    errno.EIO: "the disk reported an error; check it, and run it again",
    errno.ENODEV: "the device is not there",
    errno.ESTALE: "the network folder has gone; mount it again",
}
_LONGEST_NAME = 200


def system_sentence(error: OSError) -> str:
    """What the operating system refused, as one sentence with the name of the file and what to do.

    >>> print(system_sentence(OSError(errno.EROFS, "Read-only file system", "out/run.json")))
    out/run.json: the file system is read-only; write to a folder elsewhere
    >>> print(system_sentence(OSError("4096 requested and 1024 written")))
    the disk is full; free some space and run it again
    """
    name = str(error.filename if error.filename is not None else "")
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME // 2]}…{name[-_LONGEST_NAME // 4 :]}"
    return f"{name}: {system_reason(error)}" if name else system_reason(error)


_NUMBER = re.compile(r"\(os error (\d+)\)")
_OF_SQLITE = {
    "database or disk is full": errno.ENOSPC,
    "attempt to write a readonly database": errno.EROFS,
    "disk I/O error": errno.EIO,
}


def system_error(error: BaseException) -> OSError | None:
    """What the operating system refused, where a library (safetensors, tokenizers, SQLite) tells it in its own way.

    >>> system_error(ValueError("I/O error: No space left on device (os error 28)"))
    OSError(28, 'No space left on device')
    >>> import sqlite3
    >>> system_error(sqlite3.OperationalError("database or disk is full"))
    OSError(28, 'No space left on device')
    >>> system_error(ValueError("something else")) is None
    True
    """
    message = str(error)
    number = _NUMBER.search(message)
    code = int(number[1]) if number else _OF_SQLITE.get(message) if type(error).__module__ == "sqlite3" else None
    return None if code is None else OSError(code, os.strerror(code))


def system_reason(error: OSError) -> str:
    """The same without the name of the file.

    >>> system_reason(OSError(errno.ELOOP, "Too many levels of symbolic links", "a"))
    'links lead in a circle; give the file itself'
    """
    if error.errno is None and "requested and" in str(error) and "written" in str(error):  # as NumPy says it
        return _FULL
    return _SYSTEM.get(error.errno or 0) or (error.strerror or one_line(error)).lower()
