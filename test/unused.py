#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unused.py [ROOT | --self-test]: every function that src/ gives to other files has a caller in src/.

A function that only tests call is not part of the product: it is deleted, or it belongs to the
tests.  What include/thalweg.h promises is called by others.  Prints one line per function without
a caller and exits with 1 if there is any.
"""
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKEN = re.compile(r"[A-Za-z_]\w*|[{}();=]")


def bare(text):
    """The source without comments and without the contents of strings."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: " " if m[0][0] == "/" else '""', text, flags=re.S)


def split_macros(text):
    """The source without directives, and the bodies of its macros: their words are uses."""
    directives = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*", re.M)
    bodies = []
    for m in directives.finditer(text):
        define = re.match(r"[ \t]*#[ \t]*define[ \t]+\w+(\([^)]*\))?", m[0])
        if define:
            bodies.append(m[0][define.end():])
    return directives.sub(" ", text), " ".join(bodies)


def is_macro(name):
    return name.isupper() or name in ("__attribute__", "_Alignas", "_Static_assert")


def look(text):
    """(functions defined here for other files, words used inside braces or macros)"""
    text, macros = split_macros(bare(text))
    defined, used = set(), set(re.findall(r"[A-Za-z_]\w*", macros))
    depth = parens = 0
    head = []  # tokens of the declaration at depth 0, those in parentheses left out
    name = ""
    for token in TOKEN.findall(text):
        if depth:
            depth += (token == "{") - (token == "}")
            used.add(token)
        elif token == "(":
            if parens == 0 and head and not name and "=" not in head:
                name = head[-1]
            parens += 1
        elif token == ")":
            parens -= 1
        elif parens:
            used.add(token)  # sizeof, an array's length
        elif token == "{":
            if name and "static" not in head and "=" not in head:
                defined.add(name)
            head, name, depth = [], "", 1
        elif token == ";":
            head, name = [], ""
        elif token == "=":
            head.append(token)
        elif "=" in head:
            used.add(token)  # a table's entry without braces
        else:
            if token in ("__attribute__", "_Alignas", "_Static_assert"):
                name = name or token
            head.append(token)
    return {name for name in defined if not is_macro(name)}, used


def check(root):
    """Lines about functions of root/src that nothing in root/src uses."""
    where, used = {}, set()
    for folder, _, files in os.walk(os.path.join(root, "src")):
        for file in sorted(files):
            if not file.endswith((".c", ".h")):
                continue
            path = os.path.join(folder, file)
            with open(path, encoding="utf-8") as f:
                defined, words = look(f.read())
            used |= words
            for name in defined:
                where[name] = os.path.relpath(path, root)
    public = os.path.join(root, "include", "thalweg.h")
    promised = open(public, encoding="utf-8").read() if os.path.exists(public) else ""
    promised = set(re.findall(r"\w+", bare(promised)))
    return [f"{where[n]}: nothing in src/ calls {n}()"
            for n in sorted(where) if n not in used and n not in promised and n != "main"]


def self_test():
    """Each case: a tree, and the functions without a caller in it."""
    cases = [
        ({"a.c": "int tw_a(void)\n{\n\treturn 1;\n}\n"}, ["tw_a"]),
        ({"a.c": "int tw_a(int x) { return 1; }\nint main(void) { return tw_a(2); }\n"}, []),
        ({"a.c": "int tw_a(void) { return 1; } /* tw_a() */\nconst char *t(void) { return \"tw_a\"; }\n"},
         ["t", "tw_a"]),
        ({"a.h": "int tw_a(void);\nint tw_b(int (*f)(void), int n)\n\t__attribute__((pure));\n",
          "a.c": "int tw_a(void) { return 1; }\nint tw_b(int (*f)(void), int n) { return n; }\n",
          "b.c": "const struct t tw_t = { .f = tw_a };\n"}, ["tw_b"]),
        ({"a.h": "#define TW_A(x) \\\n\ttw_a(x)\nstatic inline int x(int n) { return tw_b(n); }\n",
          "a.c": "int tw_a(int n) { return n; }\nint tw_b(int n) { return n; }\nstatic int c(void) { return 0; }\n"},
         []),
        ({"a.c": "static int (*const f)(void) = tw_a;\nint tw_a(void) { return f(); }\n"}, []),
        ({"a.c": "#include <x.h>\n#if 1 /* tw_a */\nstruct s { int tw_a; };\n#endif\n"
                 "struct s *tw_b(void)\n{\n\tif (1) { }\n\treturn 0;\n}\n"}, ["tw_b"]),
    ]
    bad = 0
    for number, (files, expected) in enumerate(cases):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src", "base"))
            for name, text in files.items():
                with open(os.path.join(root, "src", "base", name), "w", encoding="utf-8") as f:
                    f.write(text)
            found = [line.split()[-1][:-2] for line in check(root)]
        if found != expected:
            print(f"case {number}: found {found}, not {expected}")
            bad = 1
    print("unused: the self-test failed" if bad else "unused: every case of the self-test is right")
    return bad


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    lines = check(sys.argv[1] if len(sys.argv) > 1 else HERE)
    if lines:
        print("\n".join(lines))
        print(f"unused: {len(lines)} functions of src/ have no caller there: delete them, or move them to test/kit/")
        return 1
    print("unused: every function of src/ has a caller there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
