"""The names that TypeScript declarations state: functions, classes, interfaces and types."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"(?P<doc>/\*\*.*?\*/)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<text>\"[^\"\n]*\")"
    r"|(?P<word>[\w$]+)|(?P<sign>=>|[^\s])",
    re.DOTALL,
)
_DEFAULTS = (
    re.compile(r"Default: (\"[^\"]*\"|\[[^\]]*\]|true|false|[\d.]+\b|no floor)"),
    re.compile(r"\b(ON|OFF) by default"),
    re.compile(r"Defaults to (\"\w+\")"),
    re.compile(r"(\"\w+\")`\s+\(default\)"),
)
_OF_PARAMETER = re.compile(r"@param (\w+)[^@]*?\(default (\d+)\)", re.DOTALL)
_OPEN, _CLOSE = "([{<", ")]}>"
_BUILT_IN = frozenset({"Array", "Date", "Omit", "Partial", "Promise", "Record"})


@dataclass
class Names:
    """Kinds by dotted name, and stated defaults as written, both in order of appearance."""

    kinds: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    mentioned: dict[str, None] = field(default_factory=dict)

    def mention(self, text: str) -> None:
        """The names of types in a text; they count when nothing declares them."""
        found = re.findall(r"\b[A-Z]\w*[a-z]\w*", text)
        self.mentioned.update(dict.fromkeys(name for name in found if name not in _BUILT_IN))

    def settle(self) -> "Names":
        """Adds the types that are only mentioned."""
        for name in self.mentioned:
            self.add(name, "type")
        return self

    def add(self, name: str, kind: str, doc: str = "") -> None:
        """A name; the first kind that it was given stays."""
        self.kinds.setdefault(name, kind)
        for pattern in _DEFAULTS:
            if found := pattern.search(doc):
                self.defaults.setdefault(name, found[1])


def read_declarations(source: str, names: Names) -> None:
    """Adds the names that a block of declarations states."""
    _Reader(source, names).declarations()


def read_parameters(source: str, owner: str, names: Names) -> None:
    """Adds the parameters of a signature, as ``ref, { topK? }``."""
    _Reader(source + ")", names).parameters(owner)


class _Reader:
    def __init__(self, source: str, names: Names) -> None:
        self._tokens = list(_tokens(source))
        self._at, self._names = 0, names

    def declarations(self) -> None:
        doc = ""
        while self._at < len(self._tokens):
            kind, token = self._next()
            if kind == "doc":
                doc = token
            elif token in ("function", "class", "interface", "type"):
                self._declaration(token, doc)
                doc = ""

    def _declaration(self, what: str, doc: str) -> None:
        name = self._next()[1]
        self._names.add(name, {"interface": "model"}.get(what, what), doc)
        if what == "function":
            self._next()
            self.parameters(name, doc)
            self._type(name, "result")
        elif what == "type":
            self._next()
            self._type(name, "field")
        else:
            while self._next()[1] != "{":
                pass
            self._members(name, "field")

    def _members(self, owner: str, kind: str) -> None:
        doc = ""
        while True:
            what, token = self._next()
            if token == "}":
                return
            if what == "doc":
                doc = token
            elif what == "word" and token != "readonly":
                self._member(f"{owner}.{token}", kind, doc)
                doc = ""

    def _member(self, name: str, kind: str, doc: str) -> None:
        if self._peek() == "?":
            self._next()
        if self._peek() == "(":
            self._names.add(name, "constructor" if name.endswith(".constructor") else "method", doc)
            self._next()
            self.parameters(name, doc)
            if self._peek() == ":":
                self._type(name, "result")
        else:
            self._names.add(name, kind, doc)
            if self._peek() == ":":
                self._type(name, "field" if kind == "field" else kind)

    def parameters(self, owner: str, of_owner: str = "") -> None:
        """The parameters up to the closing bracket; an object's fields stand for the object."""
        defaults = dict(_OF_PARAMETER.findall(of_owner))
        while (found := self._next())[1] != ")":
            what, token = found
            if token == "{":
                self._members(owner, "option")
            elif what == "word":
                self._parameter(owner, token, defaults)

    def _parameter(self, owner: str, token: str, defaults: dict[str, str]) -> None:
        if self._peek() == "?":
            self._next()
        start, name = self._at, f"{owner}.{token}"
        inline = self._peek() == ":" and self._tokens[start + 1][1] == "{"
        if not inline:
            self._names.add(name, "parameter")
            if token in defaults:
                self._names.defaults.setdefault(name, defaults[token])
        if self._peek() == ":":
            self._type(owner if inline else name, "option")

    def _type(self, owner: str, kind: str) -> None:
        """Reads a type: the fields of objects in it, and the texts that it is a choice of."""
        tokens = self._until_end(lambda: self._members(owner, kind))
        self._names.mention(" ".join(token for what, token in tokens if what == "word"))
        texts = []
        for what, token in tokens:
            if what == "text":
                texts.append(token.strip('"'))
            elif token not in (":", "|", "=", ";"):
                return
        if kind == "field":
            for text in texts:
                self._names.add(f"{owner}.{text}", "value")

    def _until_end(self, at_object: Callable[[], None]) -> list[tuple[str, str]]:
        depth = 0
        read: list[tuple[str, str]] = []
        while self._at < len(self._tokens):
            what, token = self._tokens[self._at]
            if depth == 0 and token in (";", ",", ")", "}"):
                break
            if what == "doc" and depth == 0 and read:
                break
            self._at += 1
            if token == "{":
                at_object()
                continue
            depth += (token in _OPEN) - (token in _CLOSE)
            read.append((what, token))
        return read

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(source):
        if match.lastgroup and match.lastgroup != "comment":
            yield match.lastgroup, match.group()
