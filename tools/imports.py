"""Checks the import direction of the isotone packages.

    python tools/imports.py [SRC]

SRC is the directory that holds the package, by default src/ beside tools/. Each violation is one line,
`file:line: what is wrong`; the exit status is 1 if there is any, 2 if there is nothing to check.

The rules:
- a package imports itself and the packages before it in ORDER, even for type checking and inside functions;
- sim never reaches runtime, and pipeline/oracle* never reaches protocol, not even through other modules;
- packages in PURE import nothing that gives a clock, randomness, sockets, threads, tasks or logging;
- `import isotone` loads nothing of HEAVY.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = "isotone"
ORDER = ("model", "protocol", "codec", "trace", "runtime", "objects", "sim", "pipeline", "report", "reproduce", "cli")
PURE = ("model", "protocol", "codec", "trace")
IMPURE = frozenset(
    {"asyncio", "concurrent", "logging", "multiprocessing", "random", "sched", "secrets", "selectors"}
    | {"socket", "ssl", "_thread", "threading", "time", "uvloop"}
)
HEAVY = frozenset({"pyspark", "pyarrow", "typer"})
# The top of the package re-exports what applications use; only the outermost packages may import from it.
ROOT_REEXPORTS = ("model", "protocol", "codec", "trace", "runtime", "objects")
ROOT_IMPORTERS = ("report", "reproduce", "cli")
# (modules whose name starts so, package they must not reach)
UNREACHABLE = ((f"{ROOT}.sim", "runtime"), (f"{ROOT}.pipeline.oracle", "protocol"))


@dataclass(frozen=True)
class Import:
    """One imported module, and how the import is met."""

    target: str
    line: int
    eager: bool  # executed when the importing module is loaded
    typing: bool  # under `if TYPE_CHECKING`


@dataclass
class Module:
    name: str
    path: Path
    imports: list[Import] = field(default_factory=list)

    @property
    def package(self) -> str:
        """The package of ORDER the module belongs to; empty for the top's own __init__."""
        return package_of(self.name)


def package_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


class Collector(ast.NodeVisitor):
    """Collects the imports of one module."""

    def __init__(self, module: str, is_package: bool, known: frozenset[str]) -> None:
        self.base = module.split(".") if is_package else module.split(".")[:-1]
        self.known = known
        self.imports: list[Import] = []
        self.function_depth = 0
        self.typing_depth = 0

    def add(self, target: str, line: int) -> None:
        eager = self.function_depth == 0 and self.typing_depth == 0
        self.imports.append(Import(target, line, eager, self.typing_depth > 0))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = node.module or ""
        if node.level:
            base = self.base[: len(self.base) - node.level + 1]
            source = ".".join([*base, source] if source else base)
        for alias in node.names:
            submodule = f"{source}.{alias.name}"
            # A name of a package may be a module of its own; then the package merely leads to it.
            is_module = submodule in self.known or (source == ROOT and alias.name in ORDER)
            self.add(submodule if is_module else source, node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
            target = node.args[0].value
            if isinstance(target, str) and not target.startswith("."):
                self.add(target, node.lineno)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        test = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
        guarded = test == "TYPE_CHECKING"
        self.visit(node.test)
        self.typing_depth += guarded
        for child in node.body:
            self.visit(child)
        self.typing_depth -= guarded
        for child in node.orelse:
            self.visit(child)

    def visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self.function_depth += 1
        self.generic_visit(node)
        self.function_depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_function


class Checker:
    """All modules below one source directory, and the violations among them."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.modules: dict[str, Module] = {}
        self.problems: list[tuple[str, int, str]] = []
        for path in sorted((source / ROOT).rglob("*.py")):
            parts = list(path.relative_to(source).with_suffix("").parts)
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.modules[name] = Module(name, path)
        known = frozenset(self.modules)
        for module in self.modules.values():
            collector = Collector(module.name, module.path.name == "__init__.py", known)
            try:
                collector.visit(ast.parse(module.path.read_bytes()))
            except SyntaxError as error:
                self.report(module, error.lineno or 1, f"does not parse: {error.msg}")
            module.imports = collector.imports

    def report(self, module: Module, line: int, text: str) -> None:
        path = module.path
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        self.problems.append((str(shown), line, text))

    def run(self) -> list[str]:
        for module in self.modules.values():
            self.check_place(module)
            for item in module.imports:
                self.check_direction(module, item)
                self.check_purity(module, item)
        for prefix, package in UNREACHABLE:
            self.check_reach(prefix, package)
        self.check_weight()
        return [f"{path}:{line}: {text}" for path, line, text in sorted(set(self.problems))]

    def check_place(self, module: Module) -> None:
        if module.package not in (*ORDER, "", "__main__"):
            self.report(module, 1, f"{module.package} is not one of the packages {', '.join(ORDER)}")

    def check_direction(self, module: Module, item: Import) -> None:
        if item.target.split(".")[0] != ROOT:
            return
        own, other = module.package, package_of(item.target)
        if own == "__main__" or own not in (*ORDER, ""):
            return  # __main__ starts the command line; a misplaced module is reported as such
        if own == "":
            allowed: tuple[str, ...] = ROOT_REEXPORTS
        elif other == "":
            allowed = ("",) if own in ROOT_IMPORTERS else ()
        else:
            allowed = ORDER[: ORDER.index(own) + 1]
        if other not in allowed:
            self.report(module, item.line, f"{own or ROOT} must not import {other or f'from the top of {ROOT}'}")

    def check_purity(self, module: Module, item: Import) -> None:
        name = item.target.split(".")[0]
        if module.package in PURE and name in IMPURE:
            self.report(module, item.line, f"{module.package} must not import {name}: a driver owns it")

    def check_reach(self, prefix: str, package: str) -> None:
        """Follows every import that can run, also inside functions; at the start, type-checking imports count too."""
        for start in [module for module in self.modules.values() if module.name.startswith(prefix)]:
            for first in start.imports:
                if first.target.startswith(prefix):
                    continue  # reported there
                chain = self.find_chain(first.target, package)
                if chain:
                    via = "" if len(chain) == 1 else f" (through {' -> '.join(chain)})"
                    self.report(start, first.line, f"{prefix.removeprefix(ROOT + '.')} must not reach {package}{via}")

    def find_chain(self, first: str, package: str) -> list[str]:
        """The shortest chain of modules from an imported one to one of the package; empty if there is none."""
        chains = [[first]]
        seen = {first}
        for chain in chains:  # grows while it is read: breadth first
            if chain[-1].split(".")[0] == ROOT and package_of(chain[-1]) == package:
                return chain
            module = self.modules.get(chain[-1])
            for item in module.imports if module else ():
                if not item.typing and item.target not in seen:
                    seen.add(item.target)
                    chains.append([*chain, item.target])
        return []

    def check_weight(self) -> None:
        """Walks what `import isotone` loads, parent packages included."""
        waiting = [ROOT]
        seen = set(waiting)
        for name in waiting:  # grows while it is read
            module = self.modules.get(name)
            for item in module.imports if module else ():
                if not item.eager:
                    continue
                if module and item.target.split(".")[0] in HEAVY:
                    self.report(module, item.line, f"import {ROOT} would load {item.target}: import it in a function")
                for loaded in parents(item.target):
                    if loaded not in seen:
                        seen.add(loaded)
                        waiting.append(loaded)


def parents(name: str) -> Iterator[str]:
    """The module and the packages above it: all of them are loaded by its import."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])


def main(arguments: list[str]) -> int:
    source = Path(arguments[0]).resolve() if arguments else Path(__file__).resolve().parent.parent / "src"
    if not (source / ROOT).is_dir():
        print(f"{source}: holds no package {ROOT}", file=sys.stderr)
        return 2
    problems = Checker(source).run()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
