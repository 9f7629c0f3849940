"""What the public headers declare: functions, fields and types, each with its place in the text.

    for entity in headers.scan(text): print(entity.kind, entity.name)

Reads headers as clang-format leaves them; it is no parser of all C++. Private members, destructors,
operators, friends and deleted or defaulted functions are left out."""

import re
from dataclasses import dataclass, field

NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                      re.DOTALL | re.MULTILINE)
SCOPE = re.compile(r"^(?:inline\s+)?(namespace|class|struct|enum(?:\s+class|\s+struct)?)\s+"
                   r"(?:\[\[\w+\]\]\s*)?([\w:]+)?[^()]*$")
SPECIFIERS = re.compile(r"\b(?:static|inline|constexpr|explicit|virtual|extern)\b|\[\[[^\]]*\]\]")


@dataclass
class Entity:
    kind: str          # "function", "field" or "type"
    name: str          # as seen from namespace onepass: "compat::KernelArg::bytes"
    begin: int = 0     # of the declaration in the text
    end: int = 0       # behind its ';' or its '{'
    type: str = ""     # returned type (empty: a constructor), or the field's
    parameters: list = field(default_factory=list)  # texts without default arguments
    defaults: list = field(default_factory=list)    # " = x", or empty
    qualifiers: str = ""   # "const noexcept"
    initializers: str = ""  # of a constructor: text behind the ':'
    value: str = ""        # of a field: its initializer, "" for none
    is_static: bool = False
    is_template: bool = False
    has_body: bool = False

    @property
    def scope(self):
        return self.name.rpartition("::")[0]

    @property
    def short(self):
        return self.name.rpartition("::")[2]


def blank(text):
    """The text with comments, strings and preprocessor lines blanked, places unchanged."""
    return NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def closing(text, begin):
    """The place of the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        if text[i] in "({[":
            depth += 1
        elif text[i] in ")}]":
            depth -= 1
            if depth == 0:
                return i
    raise ValueError(f"no closing bracket for the one at {begin}")


def split(text, separator=","):
    """Parts between separators that are in no bracket."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        if c in "({[<":
            depth += 1
        elif c in ")}]" or (c == ">" and text[i - 1] != "-"):
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def opening(text):
    """The place of the first '(' that is in no angle brackets, or -1."""
    depth = 0
    for i, c in enumerate(text):
        if c == "<":
            depth += 1
        elif c == ">" and text[i - 1] != "-":
            depth -= 1
        elif c == "(" and depth == 0:
            return i
    return -1


def qualified(scopes, name):
    return "::".join([s["name"] for s in scopes if s["name"]] + [name])


def read_function(scopes, head, begin, end, has_body):
    """The function of a declaration's text, or None."""
    text = head
    is_template = text.startswith("template")
    if "requires" in text:
        text = re.sub(r"^.*\bstatic\b", "static", text, flags=re.DOTALL)
    elif is_template:
        text = re.sub(r"^template\s*<[^>]*>", "", text)
    if re.search(r"\boperator\b|~|^\s*(friend|using|typedef|static_assert)\b", text):
        return None
    at = opening(text)
    before = text[:at].rstrip()
    match = re.search(r"(\w+)$", before)
    if not match or (not has_body and re.search(r"=\s*(default|delete)\s*$", text)):
        return None
    until = closing(text, at)
    rest, _, initializers = text[until + 1:].partition(":")
    parameters = [p.partition("=") for p in split(text[at + 1:until])]
    e = Entity("function", qualified(scopes, match.group(1)), begin, end, has_body=has_body)
    e.is_static = bool(re.search(r"\bstatic\b", before))
    e.is_template = is_template
    e.type = " ".join(SPECIFIERS.sub("", before[:match.start()]).split())
    e.parameters = [name.strip() for name, _, _ in parameters]
    e.defaults = [f" = {value.strip()}" if value else "" for _, _, value in parameters]
    e.qualifiers = " ".join(rest.split())
    e.initializers = " ".join(initializers.split())
    is_constructor = bool(scopes) and e.short == scopes[-1]["name"]
    return e if is_constructor == (e.type == "") else None


def read_fields(scopes, head, begin, end):
    """One entity for each declarator of "Type a = 1, b{};"."""
    text = head.strip()
    if re.match(r"(static|friend|using|typedef|constexpr|inline|template|static_assert)\b", text):
        return []
    if "operator" in text or opening(re.sub(r"[={].*", "", text, flags=re.DOTALL)) >= 0:
        return []
    first, *others = split(text)
    match = re.match(r"(.+?[\s&*>])(\w+)\s*(=.*|\{.*)?$", first, re.DOTALL)
    if not match:
        return []
    declarators = [(match.group(2), match.group(3))]
    for other in others:
        name, _, value = re.match(r"(\w+)(\s*)(.*)$", other, re.DOTALL).groups()
        declarators.append((name, value))
    return [Entity("field", qualified(scopes, name), begin, end,
                   type=" ".join(match.group(1).split()), value=(value or "").strip())
            for name, value in declarators]


def enter(head, scopes):
    """The scope that a '{' behind `head` opens, or None."""
    match = SCOPE.match(re.sub(r"^template\s*<[^>]*>\s*", "", head))
    if not match:
        return None
    kind, name = match.group(1), match.group(2) or ""
    name = re.sub(r"^onepass(::|$)", "", name)
    visible = all(s["visible"] for s in scopes)
    return {"kind": kind.split()[0], "name": name, "visible": visible and kind != "class"}


def scan(source):
    """The public entities of a header."""
    text, entities, scopes = blank(source), [], []
    begin = i = 0

    def is_visible():
        return all(s["visible"] for s in scopes)

    while i < len(text):
        c = text[i]
        head = text[begin:i].strip()
        at = begin + len(text[begin:i]) - len(text[begin:i].lstrip())
        if c == "(":
            i = closing(text, i)
        elif c == ":" and head in ("public", "private", "protected"):
            scopes[-1]["visible"] = head == "public"
            begin = i + 1
        elif c == "{":
            scope = enter(head, scopes)
            if scope:
                if scope["kind"] != "namespace" and is_visible() and scope["name"]:
                    entities.append(Entity("type", qualified(scopes, scope["name"]), at, i + 1))
                if scope["kind"] == "enum":
                    end = closing(text, i)
                    for enumerator in split(text[i + 1:end]):
                        name = re.match(r"\w*", enumerator).group()
                        entities.append(
                            Entity("type", qualified(scopes + [scope], name), i + 1, end))
                    i = end
                else:
                    scopes.append(scope)
                    begin = i + 1
            else:
                function = None
                if opening(head) >= 0 and not re.search(r"=\s*$", head):
                    function = read_function(scopes, head, at, i + 1, True)
                    begin = closing(text, i) + 1
                if function and is_visible():
                    entities.append(function)
                i = closing(text, i)
        elif c == "}":
            scopes.pop()
            begin = i + 1
        elif c == ";":
            if is_visible() and head:
                is_member = scopes and scopes[-1]["kind"] in ("class", "struct")
                alias = re.match(r"using\s+(?:[\w:]*::)?(\w+)\s*(=|$)", head)
                if alias:
                    entities.append(Entity("type", qualified(scopes, alias.group(1)), at, i + 1))
                elif is_member and (found := read_fields(scopes, head, at, i + 1)):
                    entities += found
                elif opening(head) >= 0:
                    function = read_function(scopes, head, at, i + 1, False)
                    entities += [function] if function else []
            begin = i + 1
        i += 1
    return entities
