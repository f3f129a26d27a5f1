"""The public interface of a package, read from its source by griffe: names, signatures, docstrings. Nothing is run."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beyondswe.construction.commits import write_files
from beyondswe.construction.recipes import Files
from beyondswe.errors import DataError
from beyondswe.sandbox.scratch import temporary_folder

_LONGEST_VALUE = 80  # characters of a constant's value or a default that is shown


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SPECIAL = _set(
    "__call__ __contains__ __enter__ __exit__ __aenter__ __aexit__ __getitem__ __setitem__ __delitem__ "
    "__iter__ __next__ __len__ __eq__ __lt__ __le__ __gt__ __ge__ __hash__ __bool__ __str__ __repr__ "
    "__add__ __sub__ __mul__ __truediv__ __and__ __or__ __xor__ __invert__ __neg__ __int__ __float__ "
    "__format__ __reversed__ __mod__ __pow__ __matmul__ __floordiv__ __radd__ __rsub__ __rmul__ __aiter__ "
    "__anext__ __await__ __index__ __bytes__ "
)


@dataclass(frozen=True)
class Parameter:
    """One parameter; ``default`` is source text, empty where there is none."""

    name: str
    annotation: str
    default: str
    about: str


@dataclass(frozen=True)
class Item:
    """A function, class, attribute or module. ``path`` is how it is imported; ``text`` the docstring's prose."""

    kind: str  # module, class, function, attribute, property
    path: str
    signature: str
    text: str = ""
    parameters: tuple[Parameter, ...] = ()
    returns: tuple[str, ...] = ()
    raises: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # other paths under which it can be imported
    members: tuple[Item, ...] = field(default=())


def public_interface(reference: Files, target: str) -> tuple[Item, ...]:
    """The modules of a package, each with its public members; a name that several modules give is told once, under
    its shortest path. `DataError` if the package cannot be read.
    """
    import griffe

    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    with temporary_folder() as folder:
        write_files(reference, folder)
        try:
            package = griffe.load(
                target,
                search_paths=[Path(folder)],
                allow_inspection=False,
                resolve_aliases=True,
                try_relative_path=False,
            )
        except (ImportError, griffe.GriffeError, SyntaxError, RecursionError) as error:
            raise DataError(f"the interface of {target} cannot be read: {error}") from error
        reader = _Reader(target)
        return tuple(reader.modules(package))


class _Reader:
    def __init__(self, target: str) -> None:
        self.target = target
        self.told: dict[str, str] = {}  # where a thing is defined → the path it is told under

    def modules(self, package: Any) -> Iterator[Item]:
        modules = list(_modules(package))
        for module in modules:  # shortest paths first: what __init__ gives is told there
            for name, member in _public(module, self.target):
                self.told.setdefault(_origin(member), f"{module.path}.{name}")
        for module in modules:
            members = tuple(self._members(module))
            text, _ = _docstring(module)
            if members or text or module is package:
                yield Item(
                    "module", module.path, "", text, members=members, examples=tuple(_examples(module))
                )

    def _members(self, module: Any) -> Iterator[Item]:
        for name, member in _public(module, self.target):
            path = f"{module.path}.{name}"
            if self.told.get(_origin(member)) == path:
                item = self._item(member, name, path)
                if item is not None:
                    yield item

    def _item(self, member: Any, name: str, path: str) -> Item | None:
        target = member.final_target if member.is_alias else member
        if target.is_class:
            return self._class(target, name, path)
        if target.is_function:
            return _function(target, name, path)
        if target.is_attribute:
            return _attribute(target, name, path)
        return None

    def _class(self, found: Any, name: str, path: str) -> Item:
        import griffe

        bases = ", ".join(str(base) for base in found.bases)
        start = found.members.get("__init__")
        members = []
        for key, member in found.members.items():
            if (key.startswith("_") and key not in _SPECIAL) or member.is_alias:
                continue
            item = self._item(member, key, f"{path}.{key}")
            if item is not None:
                members.append(item)
        text, sections = _docstring(found)
        parameters: tuple[Parameter, ...] = ()
        signature = f"class {name}" + (f"({bases})" if bases else "")
        if start is not None and start.is_function:
            signature += f"\n{name}{_signature(start, method=True)}"
            start_text, start_sections = _docstring(start)
            text = "\n\n".join(filter(None, (text, start_text)))
            sections = [*sections, *start_sections]
            parameters = _parameters(start, sections, method=True)
        elif any("dataclass" in str(decorator.value) for decorator in found.decorators):
            fields = [
                each for each in found.members.values() if each.is_attribute and each.annotation is not None
            ]
            listed = ", ".join(
                f"{each.name}: {each.annotation}"
                + (f" = {_short(each.value)}" if each.value is not None else "")
                for each in fields
            )
            signature += f"\n{name}({listed})"
        about = {
            each.name: each.description
            for section in sections
            if section.kind is griffe.DocstringSectionKind.attributes
            for each in section.value
        }
        known = {member.path.rpartition(".")[2] for member in members}
        members += [
            Item("attribute", f"{path}.{key}", key, value) for key, value in about.items() if key not in known
        ]
        return Item(
            "class",
            path,
            signature,
            text,
            parameters,
            (),
            _raises(sections),
            _shown(sections),
            members=tuple(members),
        )


def _modules(package: Any) -> Iterator[Any]:
    """The package and its public modules, less tests, the shortest paths first."""
    found = [package]
    for module in found:
        for name, member in module.members.items():
            is_own = not member.is_alias and member.is_module and not name.startswith(("_", "test_"))
            if is_own and name not in ("tests", "test", "conftest"):
                found.append(member)
    return iter(sorted(found, key=lambda module: module.path.count(".")))


def _public(module: Any, target: str) -> Iterator[tuple[str, Any]]:
    """Public members of a module: those of ``__all__``; else what it defines, and in a package also what it takes
    from its own modules. What comes from elsewhere, or cannot be followed, is not its own.
    """
    listed = module.exports
    for name, member in module.members.items():
        if listed is not None:
            if name not in [str(each) for each in listed]:
                continue
        elif name.startswith("_"):
            continue
        if member.is_alias:
            import griffe

            if not str(member.target_path).startswith(f"{target}."):
                continue
            if listed is None and not module.is_init_module:
                continue
            try:
                if member.final_target.is_module:
                    continue
            except griffe.GriffeError:
                continue
        elif member.is_module:
            continue
        yield name, member


def _origin(member: Any) -> str:
    return str(member.final_target.path if member.is_alias else member.path)


def _function(found: Any, name: str, path: str) -> Item:
    inside = found.parent is not None and found.parent.is_class
    static = any(str(each.value) == "staticmethod" for each in found.decorators)
    text, sections = _docstring(found)
    prefix = "async " if "async" in found.labels else ""
    return Item(
        "function",
        path,
        f"{prefix}{name}{_signature(found, method=inside and not static)}",
        text,
        _parameters(found, sections, method=inside and not static),
        _returns(sections),
        _raises(sections),
        _shown(sections),
    )


def _attribute(found: Any, name: str, path: str) -> Item:
    text, sections = _docstring(found)
    is_property = "property" in found.labels
    annotation = f": {found.annotation}" if found.annotation is not None else ""
    value = "" if is_property or "instance-attribute" in found.labels else _literal(found.value)
    kind = "property" if is_property else "attribute"
    signature = f"{name}{annotation}{f' = {value}' if value else ''}"
    return Item(kind, path, signature, text, returns=_returns(sections), examples=_shown(sections))


def _literal(value: Any) -> str:
    """A constant's value where it is plain and short; what is computed is implementation."""
    if value is None:
        return ""
    try:
        ast.literal_eval(str(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ""
    text = _short(value)
    return "" if text == "..." else text


def _signature(found: Any, *, method: bool) -> str:
    parts: list[str] = []
    kinds = [parameter.kind.name if parameter.kind else "" for parameter in found.parameters]
    starred = False
    for place, parameter in enumerate(found.parameters):
        if method and place == 0:
            continue
        kind = kinds[place]
        text = {"var_positional": "*", "var_keyword": "**"}.get(kind, "") + parameter.name.lstrip("*")
        starred = starred or kind == "var_positional"
        if kind == "keyword_only" and not starred:
            parts.append("*")
            starred = True
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not kind.startswith("var"):
            text += (
                f" = {_short(parameter.default)}"
                if parameter.annotation is not None
                else f"={_short(parameter.default)}"
            )
        parts.append(text)
        if kind == "positional_only" and (place + 1 == len(kinds) or kinds[place + 1] != "positional_only"):
            parts.append("/")
    returns = f" -> {found.returns}" if found.returns is not None else ""
    return f"({', '.join(parts)}){returns}"


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_VALUE else "..."


def _docstring(found: Any) -> tuple[str, list[Any]]:
    """The prose of a docstring, and its other sections."""
    import griffe

    if found.docstring is None:
        return "", []
    sections = found.docstring.parse(griffe.Parser.auto)
    prose = [str(each.value).strip() for each in sections if each.kind is griffe.DocstringSectionKind.text]
    for each in sections:
        if each.kind is griffe.DocstringSectionKind.admonition:
            prose.append(f"{each.title or each.value.kind}: {each.value.description}".strip())
    return "\n\n".join(filter(None, prose)), list(sections)


def _parameters(found: Any, sections: list[Any], *, method: bool) -> tuple[Parameter, ...]:
    import griffe

    about = {
        each.name.lstrip("*"): (str(each.annotation or ""), " ".join(str(each.description).split()))
        for section in sections
        if section.kind
        in (griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.other_parameters)
        for each in section.value
    }
    kept = []
    for place, parameter in enumerate(found.parameters):
        name = parameter.name.lstrip("*")
        if (method and place == 0) or name not in about:
            continue
        default = (
            ""
            if parameter.default is None or str(parameter.kind).endswith("var")
            else _short(parameter.default)
        )
        annotation = str(parameter.annotation) if parameter.annotation is not None else about[name][0]
        kept.append(Parameter(parameter.name, annotation, default, about[name][1]))
    return tuple(kept)


def _returns(sections: list[Any]) -> tuple[str, ...]:
    import griffe

    kinds = (griffe.DocstringSectionKind.returns, griffe.DocstringSectionKind.yields)
    return tuple(
        " ".join(f"{each.annotation or ''}: {each.description or ''}".strip(": ").split())
        for section in sections
        if section.kind in kinds
        for each in section.value
    )


def _raises(sections: list[Any]) -> tuple[str, ...]:
    import griffe

    return tuple(
        " ".join(f"{each.annotation}: {each.description or ''}".strip(": ").split())
        for section in sections
        if section.kind is griffe.DocstringSectionKind.raises
        for each in section.value
    )


def _shown(sections: list[Any]) -> tuple[str, ...]:
    """Examples of a docstring: code, and the prose between."""
    import griffe

    return tuple(
        str(text).strip()
        for section in sections
        if section.kind is griffe.DocstringSectionKind.examples
        for _, text in section.value
    )


def _examples(found: Any) -> tuple[str, ...]:
    return _shown(_docstring(found)[1])
