"""Official names in a text: what a name of a file stands for, and how the file writes an official name."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from nki_lab.dialects import NKI
from nki_lab.rewrite import IMPORTS

# Members of nki.isa.constants are those of nki.isa.
_SAME = {"nki.isa.constants": "nki.isa"}


class Names:
    """The imports of a module.

    Attributes:
        bound: local name -> the dotted name that an import gives it.
        needed: lines of imports that the module lacks and that what was written needs.
    """

    def __init__(self, module: cst.Module) -> None:
        self.bound: dict[str, str] = {}
        self.needed: list[str] = []
        for node in m.findall(module, m.Import() | m.ImportFrom()):
            self._take(node)
        assigned = {dotted_name(n) for n in m.findall(module, m.Name())} - set(self.bound)
        self.bound.update({n: home for n, home in NKI.ready.items() if n in assigned})

    def _take(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Import):
            for alias in node.names:
                dotted = dotted_name(alias.name)
                if alias.asname is None:
                    root = dotted.partition(".")[0]
                    self.bound[root] = root
                else:
                    self.bound[dotted_name(alias.asname.name)] = dotted
        elif isinstance(node, cst.ImportFrom) and node.module and not node.relative:
            if isinstance(node.names, cst.ImportStar):
                return
            for alias in node.names:
                local = dotted_name(alias.asname.name if alias.asname else alias.name)
                self.bound[local] = f"{dotted_name(node.module)}.{dotted_name(alias.name)}"

    def imports_nki(self, node: cst.CSTNode) -> bool:
        """Tell whether a statement imports a module of NKI, or a name from one."""
        alone = Names(cst.Module([node])) if isinstance(node, cst.SimpleStatementLine) else None
        return alone is not None and any(
            h.partition(".")[0] == NKI.root for h in alone.bound.values()
        )

    def official(self, node: cst.CSTNode) -> str:
        """Return the official name that an expression spells, such as "nki.isa.dma_copy"; "" for any other one."""
        first, dot, rest = dotted_name(node).partition(".")
        home = self.bound.get(first, "")
        name = f"{home}{dot}{rest}" if home else ""
        for former, now in _SAME.items():
            if name.startswith(f"{former}."):
                name = now + name.removeprefix(former)
        return name if name.partition(".")[0] == NKI.root else ""

    def written(self, official: str) -> cst.BaseExpression:
        """Return the expression by which the module reaches an official name; notes the import that it lacks."""
        for end in range(official.count(".") + 1, 0, -1):
            home = ".".join(official.split(".")[:end])
            rest = official.removeprefix(home)
            for local, dotted in self.bound.items():
                if dotted == home:
                    return cst.parse_expression(f"{local}{rest}")
        if "." not in official:
            return cst.Name(official)
        module = ".".join(official.split(".")[:2])
        local, line = next(
            (n, line) for n, line in IMPORTS.items() if line == f"import {module} as {n}"
        )
        self.bound[local] = module
        self.needed.append(line)
        return cst.parse_expression(f"{local}{official.removeprefix(module)}")


def cast_array(array: cst.BaseExpression, dtype: str) -> str:
    """Return the text of an array in another dtype."""
    simple = (cst.Name, cst.Call, cst.Attribute, cst.Subscript)
    is_one = bool(array.lpar) or isinstance(array, simple)
    return f"{code_of(array) if is_one else f'({code_of(array)})'}.astype({dtype})"


def dotted_name(node: cst.CSTNode) -> str:
    """Return the name that an expression spells, such as "nisa.dge_mode"; "" for what is not just names."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        before = dotted_name(node.value)
        return f"{before}.{node.attr.value}" if before else ""
    return ""


def code_of(node: cst.CSTNode) -> str:
    """Return the text of a node."""
    return cst.Module([]).code_for_node(node).strip()
