"""Mutants of the public headers: what docs/seed-api.md names, emptied one at a time.

    mutants, problems = mutate_headers.plan(root, rows)
    mutate_headers.write(mutants, root, folder, archive)

writes into `folder` a copy of the headers in which every wrapper returns at once, with a default
value, and every option keeps its default, when the environment variable ONEPASS_MUTANT has its
number. Functions that are only declared are replaced by one that calls the library's by its linker
name, so nothing of the library changes and one build has all mutants."""

import glob
import os
import re
import subprocess
from dataclasses import dataclass, field

import headers

QUOTED = re.compile(r"`([^`]+)`")
IDENTIFIERS = re.compile(r"~?[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*")

SUPPORT = r"""// What the mutants of the headers beside this file share.
#pragma once
#include <cstdlib>
#include <functional>
#include <type_traits>
#include <utility>

namespace onepass {
template <class T>
class Result;
}
namespace onepass_mutation {
inline int active = [] {
  const char* number = std::getenv("ONEPASS_MUTANT");
  return number == nullptr ? 0 : std::atoi(number);
}();
constexpr bool is(int number) { return !std::is_constant_evaluated() && active == number; }
template <class T>
struct is_result : std::false_type {};
template <class T>
struct is_result<::onepass::Result<T>> : std::true_type {};

// What an emptied function gives. Types without a default value have an onepass_emptied of theirs.
template <class T>
T empty() {
  using V = std::remove_cvref_t<T>;
  if constexpr (std::is_void_v<T>) {
    return;
  } else if constexpr (std::is_reference_v<T>) {
    static V& value = *new V(empty<V>());
    return static_cast<T>(value);
  } else if constexpr (std::is_default_constructible_v<V>) {
    return V();
  } else if constexpr (is_result<V>::value) {
    return V(onepass_emptied(std::type_identity<V>{}));
  } else {
    const int kept = std::exchange(active, 0);
    V value = onepass_emptied(std::type_identity<V>{});
    active = kept;
    return value;
  }
}
// The argument of an emptied constructor.
template <int number, class T>
T& given(T& value) {
  if (!is(number)) return value;
  static T& none = *new T(empty<std::remove_const_t<T>>());
  return none;
}
// A field that keeps its default. Layout as T.
template <class T, class Take>
struct field {
  T value{};
  field() = default;
  template <class U>
  requires(std::is_convertible_v<U, T> && !std::is_same_v<std::remove_cvref_t<U>, field>)
  field(U&& v) : value(Take::take(T(std::forward<U>(v)))) {}
  operator T() const { return Take::take(value); }
};
}  // namespace onepass_mutation
"""

# Behind compat.h: what has no default value.
EMPTIED = r"""
namespace onepass {
inline Device onepass_emptied(std::type_identity<Device>) { return *Device::open("null"); }
inline GraphSession onepass_emptied(std::type_identity<GraphSession>) {  // one that has ended
  GraphSession s = GraphExecutor(*Device::open("null")).begin();
  (void)s.finish();
  return s;
}
inline CommandEncoder onepass_emptied(std::type_identity<CommandEncoder>) {
  return CommandEncoder(*Device::open("null"));
}
inline KernelRegistry onepass_emptied(std::type_identity<KernelRegistry>) {
  static const Device other = *Device::open("null");
  return other.kernels();
}
template <class T>
Error onepass_emptied(std::type_identity<Result<T>>) {
  return make_error(ErrorCode::internal, "emptied");
}
namespace compat {
inline GraphSession onepass_emptied(std::type_identity<GraphSession>) {
  return GraphSession(onepass_emptied(std::type_identity<onepass::GraphSession>{}));
}
inline CommandEncoder onepass_emptied(std::type_identity<CommandEncoder>) {
  return CommandEncoder(*Device::open("null"));
}
inline KernelArg onepass_emptied(std::type_identity<KernelArg>) { return KernelArg(View{}); }
}  // namespace compat
}  // namespace onepass
"""


@dataclass
class Mutant:
    number: int
    entity: headers.Entity
    path: str         # of the header, below include/
    value: str = ""   # of an option: ignored only where it is given this value
    rows: list = field(default_factory=list)

    @property
    def name(self):
        overload = "" if self.entity.kind == "field" else f"({', '.join(self.entity.parameters)})"
        return self.entity.name + (f" = {self.value}" if self.value else overload)


class Headers:
    """All public C++ headers and what they declare."""

    def __init__(self, root):
        self.texts, self.of = {}, {}
        include = os.path.join(root, "include")
        for path in sorted(glob.glob(os.path.join(include, "onepass", "**", "*"), recursive=True)):
            if os.path.isfile(path):
                with open(path, encoding="utf-8") as file:
                    self.texts[os.path.relpath(path, include)] = file.read()
        for path, text in self.texts.items():
            if path.endswith((".h", ".hpp")) and path != "onepass/onepass.h":
                for entity in headers.scan(text):
                    self.of.setdefault(entity.name, []).append((path, entity))

    def named(self, name, scope):
        """What a name of the document means; `scope` is the class named last."""
        native = name.removeprefix("compat::")
        members = [f"{scope}::{name}", f"{scope.removeprefix('compat::')}::{name}"]
        for candidate in [name, native] if "::" in name else members + [name]:
            if candidate in self.of:
                found = self.of[candidate]  # a using-declaration may stand beside overloads
                return [x for x in found if x[1].kind != "type"] or found
        return []

    def constructors(self, entity):
        """Those of a wrapper; of "using Base::Base;" as functions of the class that has it."""
        if not entity.name.startswith("compat::"):
            return []
        made = []
        for path, e in self.of.get(f"{entity.name}::{entity.short}", []):
            if e.kind == "function":
                made.append((path, e))
                continue
            for _, base in self.of.get(e.name.removeprefix("compat::"), []):
                if len(base.parameters) == 1 and "&&" not in base.parameters[0]:
                    made.append((path, headers.Entity("function", e.name, e.begin, e.end,
                                                      parameters=base.parameters,
                                                      initializers="inherited")))
        return made


def names_in(cell):
    """(name, arguments, value) of every quoted part of a cell: `A::{b, c}` is two names, what
    follows a call's parentheses is left out."""
    for part in QUOTED.findall(cell):
        group = re.match(r"([\w:]+)::\{([^}]*)\}", part)
        if group:
            for member in group.group(2).split(","):
                yield f"{group.group(1)}::{member.strip().removesuffix('()')}", "", ""
            continue
        match = IDENTIFIERS.match(part)
        if match is None or (" " in part and "::" not in part and "(" not in part):
            continue
        rest = part[match.end():]
        arguments = re.match(r"\(([^)]*)\)", rest)
        value = re.match(r" = (\w+)$", rest)
        yield match.group(), *(found.group(1) if found else "" for found in (arguments, value))


def can_be_emptied(entity):
    if entity.kind != "function":
        return entity.kind == "field"
    return entity.type != "" or bool(entity.parameters and entity.initializers)


def meant(found, arguments):
    """Of overloads those that take the named types, if the document names any."""
    types = set(re.findall(r"\w+", arguments))
    chosen = [(path, e) for path, e in found
              if e.kind != "function" or types & set(re.findall(r"\w+", " ".join(e.parameters)))]
    return chosen if types and chosen else found


def plan(root, rows):
    """The mutants that the rows name, and what is wrong with the names."""
    all_headers = Headers(root)
    mutants, problems = {}, []
    for row in rows:
        scope = ""
        for name, arguments, value in names_in(row.form):
            found = all_headers.named(name, scope)
            if not found:
                if "::" in name:
                    problems.append(f"{name}: no public header has it")
                continue
            first = found[0][1]
            scope = first.name if first.kind == "type" else first.scope or scope
            if first.kind == "type":
                found = all_headers.constructors(first)
            for path, entity in meant(found, arguments):
                if not can_be_emptied(entity) or row.is_nominal:
                    continue
                key = (entity.name, path, entity.begin, tuple(entity.parameters), value)
                mutant = mutants.setdefault(key, Mutant(len(mutants) + 1, entity, path, value))
                if row not in mutant.rows:
                    mutant.rows.append(row)
    named = {(m.entity.name, m.entity.begin) for m in mutants.values()}
    nominal = {name for row in rows if row.is_nominal for name, _, _ in names_in(row.form)}
    for found in all_headers.of.values():
        for path, e in found:
            if (path.startswith("onepass/compat") and e.kind == "function" and can_be_emptied(e) and
                    (e.name, e.begin) not in named and e.name not in nominal):
                problems.append(f"{e.name}({', '.join(e.parameters)}): no row names it")
    return list(mutants.values()), problems


def variable(parameter):
    return re.search(r"(\w+)\s*$", parameter).group(1)


def symbols(archive):
    """Demangled name without arguments -> [(demangled, linker name)] of the library's functions."""
    lines = subprocess.run(["nm", "--defined-only", "--format=posix", archive], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    mangled = sorted({line.split()[0] for line in lines if re.match(r"_Z\w+ T", line)})
    names = subprocess.run(["c++filt"], input="\n".join(mangled), check=True, capture_output=True,
                           text=True).stdout.splitlines()
    table = {}
    for linker_name, name in zip(mangled, names):
        table.setdefault(name.partition("(")[0].replace("[abi:cxx11]", ""), []).append(
            (name, linker_name))
    return table


def linker_name(table, entity):
    """The library's symbol for a declared function."""
    found = table.get(f"onepass::{entity.name}", [])
    if len(found) > 1:
        def fits(name):
            taken = headers.split(name.partition("(")[2].rpartition(")")[0])
            wanted = [re.findall(r"\w+", p)[:-1] for p in entity.parameters]
            same_constness = name.endswith(" const") == ("const" in entity.qualifiers.split())
            return len(taken) == len(wanted) and same_constness and all(
                words[-1] in re.findall(r"\w+", t) for words, t in zip(wanted, taken) if words)
        found = [(name, symbol) for name, symbol in found if fits(name)]
    if len(found) != 1:
        raise ValueError(f"{entity.name}: {len(found)} symbols of the library fit")
    return found[0][1]


def emptied_function(mutant, source, table):
    """The new text of a function's head, up to and with its '{', or of its declaration."""
    e, n = mutant.entity, mutant.number
    text = source[e.begin:e.end]
    guard = f"if (::onepass_mutation::is({n})) return ::onepass_mutation::empty<{e.type}>();"
    if e.initializers == "inherited":
        argument = variable(e.parameters[0])
        base = e.scope.removeprefix("compat::")
        return (f"explicit {e.short}({e.parameters[0]}) : onepass::{base}"
                f"(::onepass_mutation::given<{n}>({argument})) {{}}")
    if e.type == "":
        colon = headers.closing(headers.blank(text), headers.opening(text))
        head, tail = text[:colon + 1], text[colon + 1:]
        for parameter in e.parameters:
            name = variable(parameter)
            tail = re.sub(rf"(?<![\w.:]){name}\b", f"::onepass_mutation::given<{n}>({name})", tail)
        return head + tail
    if e.has_body:
        return f"{text} {guard}"
    real = f"onepass_real_{n}"
    arguments = ", ".join(f"static_cast<decltype({a})&&>({a})" for a in map(variable, e.parameters))
    with_defaults = ", ".join(p + d for p, d in zip(e.parameters, e.defaults))
    static = "static " if e.is_static else ""
    that = "std::move(*this)." if "&&" in e.qualifiers else ""
    return (f"{static}{e.type} {real}({', '.join(e.parameters)}) {e.qualifiers} "
            f"asm(\"{linker_name(table, e)}\"); "
            f"[[gnu::always_inline, gnu::gnu_inline]] {static}inline {e.type} {e.short}"
            f"({with_defaults}) {e.qualifiers} {{ {guard} return {that}{real}({arguments}); }}")


def literal(type_name, value):
    return value if value[0].isdigit() or value in ("true", "false") else f"{type_name}::{value}"


def fields_at(begin, source, mutants_of):
    """The new text of the declaration that begins there, of fields some of which are mutants."""
    out = []
    for e in headers.scan(source):
        if e.kind != "field" or e.begin != begin:
            continue
        of_this = mutants_of.get(e.name, [])
        value = re.search(rf"\b{e.short}\s*((?:=\s*[^,;]+|\{{[^}}]*\}})?)\s*[,;]",
                          source[e.begin:e.end]).group(1).strip()
        if not of_this:
            out.append(f"{e.type} {e.short}{' ' + value if value else ''};")
            continue
        default = value.removeprefix("=").strip() or "{}"
        default = f"T({default})" if not default.startswith("{") else f"T{default}"
        tests = " || ".join(
            f"(::onepass_mutation::is({m.number})" +
            (f" && v == {literal(e.type, m.value)})" if m.value else ")") for m in of_this)
        take = f"onepass_take_{of_this[0].number}"
        out.append(f"struct {take} {{ using T = {e.type}; static T take(T v) {{ "
                   f"return ({tests}) ? {default} : v; }} }}; "
                   f"::onepass_mutation::field<{e.type}, {take}> {e.short}"
                   f"{' = ' + take + '::T' + value if value.startswith('{') else ' ' + value};")
    return " ".join(out)


def put(path, text):
    """Writes a file unless it has that text, so that nothing is compiled anew without need."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write(mutants, root, folder, archive):
    """The copy of the headers, and onepass_mutation.h beside it."""
    texts, table = Headers(root).texts, symbols(archive)
    edits, of_field = {}, {}
    for m in mutants:
        if m.entity.kind == "field":
            of_field.setdefault(m.entity.name, []).append(m)
    for m in mutants:
        source, e = texts[m.path], m.entity
        new = (fields_at(e.begin, source, of_field) if e.kind == "field"
               else emptied_function(m, source, table))
        edits.setdefault(m.path, {})[e.begin] = (e.end, new)
    for path, text in texts.items():
        for begin, (end, new) in sorted(edits.get(path, {}).items(), reverse=True):
            text = text[:begin] + new + text[end:]
        put(os.path.join(folder, path), text + (EMPTIED if path == "onepass/compat.h" else ""))
    put(os.path.join(folder, "onepass_mutation.h"), SUPPORT)
