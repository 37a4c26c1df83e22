"""
Lists what three reference documents name, as TOML: names and stated defaults, no text.

    scripts/parity-list DIR > tests/parity/reference.toml

The documents are told apart by how they are written: declarations in fenced blocks (system A), a
plain page with a signature (B), and tables (C).
"""

import json
import re
import sys
from pathlib import Path

from tests.parity.typescript import Names, read_declarations, read_parameters

_FENCE = re.compile(r"^```(?:typescript|ts)\b[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_HEADER = "# Made by scripts/parity-list from the reference documents; names are interface facts.\n"


def read_a(text: str) -> Names:
    """System A: every fenced block is declarations."""
    names = Names()
    for block in _FENCE.findall(text):
        read_declarations(block, names)
    return names.settle()


def read_b(text: str) -> Names:
    """System B: a signature, a table of options, and lists of what is returned."""
    names = Names()
    signature = re.search(r"^function (\w+)\(\w+: (\w+)\): (\w+)", text, re.MULTILINE)
    assert signature
    function, options, result = signature.groups()
    for name, kind in ((function, "function"), (options, "model"), (result, "model")):
        names.add(name, kind)
    for option, type_, told in re.findall(r"^(\w+)\t([^\t\n]+)\t(.*)$", text, re.MULTILINE):
        if option == "Option":
            continue
        names.add(f"{options}.{option}", "option")
        names.mention(type_)
        for part in re.findall(r"(\w+)\??(?=[:,} ])", type_) if type_.startswith("{") else []:
            if part != "number":
                names.add(f"{options}.{option}.{part}", "option")
        if found := re.search(r"Default (\d+|\{.*?\})\.?", told):
            names.defaults[f"{options}.{option}"] = found[1]
    _results_of_b(text, result, names)
    names.mention(" ".join(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", text)))
    return names.settle()


def _results_of_b(text: str, result: str, names: Names) -> None:
    handles = {}
    for name, parameters, type_ in re.findall(
        r"^• (\w+)\(([^)\n]*)\)(?: => (\S+))?$", text, re.MULTILINE
    ):
        names.add(f"{result}.{name}", "method")
        names.mention(type_)
        read_parameters(parameters, f"{result}.{name}", names)
        if type_ and type_.endswith("Operation"):
            handles[name] = type_
            names.add(type_, "model")
    for name in re.findall(r"^• (\w+)(?:: | access)", text, re.MULTILINE):
        names.add(f"{result}.{name}", "field")
    for name, options in re.findall(r"^• (\w+)\(\.\.\., \{ (\w+)\?: ", text, re.MULTILINE):
        names.add(f"{result}.{name}.{options}", "option")
    variables = dict(re.findall(r"const (\w+) = mem\.(\w+)\(", text))
    for variable, member, values in re.findall(
        r"^(\w+Op)\.(\w+)\S*(?: // (.*))?$", text, re.MULTILINE
    ):
        names.mention(values)
        owner = f"{handles[variables[variable]]}.{member}"
        names.add(owner, "method" if f"{variable}.{member}()" in text else "field")
        for value in re.findall(r"\"(\w+)\"", values):
            names.add(f"{owner}.{value}", "value")


def read_c(text: str) -> Names:
    """System C: tables of options, members, functions and errors; declarations of types."""
    names, owner, heading = Names(), "", ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line
            if found := re.search(r"`new (\w+)\(", line):
                owner = found[1]
                names.add(owner, "class")
                names.add(f"{owner}.constructor", "constructor")
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            _row_of_c(cells, heading, owner, names)
            names.mention(" ".join(_SPAN.findall(" ".join(cells[:2]))))
    for block in _FENCE.findall(text):
        read_declarations(block, names)
        for name in re.findall(r"^new (\w+)\(", block, re.MULTILINE):
            names.add(name, "class")
    for name, member, given in re.findall(r"^`(\w+)` adds `(\w+)\(([^)]*)\)", text, re.MULTILINE):
        names.add(name, "model")
        names.add(f"{name}.{member}", "method")
        read_parameters(given, f"{name}.{member}", names)
    known = {name.rsplit(".", 1)[-1] for name in names.kinds}
    for span in _SPAN.findall(_FENCE.sub("", text)):
        last = span.rsplit(".", 1)[-1]
        if re.fullmatch(r"(?:\w+\.)?[a-z]+[A-Z]\w*", span) and last not in known:
            names.add(last, "name")
    return names.settle()


def _row_of_c(cells: list[str], heading: str, owner: str, names: Names) -> None:
    if "Errors" in heading:
        names.add(cells[0].strip("`"), "error")
    elif "Functions" in heading:
        for span in _SPAN.findall(cells[0]):
            name, _, parameters = span.partition("(")
            names.add(name, "function")
            read_parameters(parameters.rstrip(")"), name, names)
    elif owner and len(cells) == 3 and "Backends" not in heading and "Package" not in heading:
        first = _SPAN.findall(cells[0])[0]
        if not first[0].islower():
            return
        name, called, parameters = first.partition("(")
        if called:
            names.add(f"{owner}.{name}", "method")
            read_parameters(parameters.rstrip(")"), f"{owner}.{name}", names)
            for result in re.findall(r"`\{ ([^}]*) \}`", cells[2]):
                for field in result.split(", "):
                    names.add(f"{owner}.{name}.{field}", "result")
        elif re.match(r"`(?:I[A-Z]\w+|\w+Options)`$", cells[1]):
            names.add(f"{owner}.constructor.{name}", "option")
            _parts_of_c(cells[2], f"{owner}.constructor.{name}", names)
        else:
            names.add(f"{owner}.{name}", "field")


def _parts_of_c(told: str, option: str, names: Names) -> None:
    if not told.startswith("`"):
        return
    for part, default in re.findall(r"`(\w+)`(?: \(default (\w+)\))?", told):
        names.add(f"{option}.{part}", "option")
        if default:
            names.defaults[f"{option}.{part}"] = default


def read_all(folder: Path) -> dict[str, Names]:
    """The names of every document in a folder, by system."""
    found = {}
    for path in sorted(folder.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if "export declare" in text:
            found["A"] = read_a(text)
        elif re.search(r"^## `new \w+\(", text, re.MULTILINE):
            found["C"] = read_c(text)
        elif re.search(r"^function \w+\(", text, re.MULTILINE):
            found["B"] = read_b(text)
    return found


def as_toml(systems: dict[str, Names]) -> str:
    """The names as TOML, in order of appearance."""
    return _HEADER + "".join(_section(system, systems[system]) for system in sorted(systems))


def _section(system: str, names: Names) -> str:
    lines = [f"\n[{system}.names]\n"]
    lines += [f"{json.dumps(name)} = {json.dumps(kind)}\n" for name, kind in names.kinds.items()]
    lines.append(f"\n[{system}.defaults]\n")
    lines += [f"{json.dumps(name)} = {_value(told)}\n" for name, told in names.defaults.items()]
    return "".join(lines)


def _value(told: str) -> str:
    words = {"ON": "true", "OFF": "false", "no floor": '"none"'}
    if told.startswith("{"):
        return re.sub(r"(\w+): ", r"\1 = ", told)
    return words.get(told, told)


def main(arguments: list[str]) -> int:
    """Prints the list of the documents in the folder that is the only argument."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: scripts/parity-list DIR, the folder of the documents", file=sys.stderr)
        return 2
    systems = read_all(Path(arguments[0]))
    if sorted(systems) != ["A", "B", "C"]:
        print(f"found the systems {sorted(systems)}, not A, B and C", file=sys.stderr)
        return 1
    sys.stdout.write(as_toml(systems))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
