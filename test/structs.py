#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""structs.py [--list | --self-test] - no struct of src/node or src/world has more than 40 fields.

A struct with many fields is several things in one: state that travels together belongs into a
struct of its own, with its own invariants and its own reset.  `--list` prints the largest."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ('src/node', 'src/world')
MOST = 40


def plain(text):
    """Without comments and preprocessor lines."""
    text = re.sub(r'/\*.*?\*/|//[^\n]*', ' ', text, flags=re.S)
    return re.sub(r'^[ \t]*#.*$', '', text, flags=re.M)


def outer_parts(text, separator):
    """text split at the separators that are in no bracket."""
    parts, depth, part = [], 0, ''
    for c in text:
        depth += (c in '([{') - (c in ')]}')
        if c == separator and depth == 0:
            parts.append(part)
            part = ''
        else:
            part += c
    return parts + [part]


def body_at(text, at):
    """What is between the brace at `at` and the one that closes it."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == '{') - (text[end] == '}')
        if depth == 0:
            return text[at + 1:end]
    raise ValueError('a brace is not closed')


def fields(body):
    """Members of a struct; those of a struct without a name inside it count, too."""
    count = 0
    for member in outer_parts(body, ';'):
        if not member.strip():
            continue
        inner = re.match(r'\s*(?:struct|union)\s*\{', member)
        names = [n for n in outer_parts(member, ',') if n.strip()]
        if inner and re.sub(r'\s', '', member).endswith('}'):  # its members are ours
            count += fields(body_at(member, inner.end() - 1))
        else:
            count += len(names)
    return count


def structs(text):
    text = plain(text)
    for m in re.finditer(r'\bstruct\s+(\w+)\s*\{', text):
        yield m.group(1), fields(body_at(text, m.end() - 1))


def all_structs():
    for folder in FOLDERS:
        for name in sorted(os.listdir(os.path.join(ROOT, folder))):
            if name.endswith(('.c', '.h')):
                with open(os.path.join(ROOT, folder, name)) as f:
                    for struct, count in structs(f.read()):
                        yield count, struct, f'{folder}/{name}'


def self_test():
    text = '''struct a { int x, *y[3]; /* z; */ void (*f)(int, int); struct b b;
        union { int p; float q; }; struct { int r, s; } t; };'''
    assert list(structs(text))[0] == ('a', 7), list(structs(text))
    assert fields('int a' + ', a' * 40) == 41


def main():
    if sys.argv[1:] == ['--self-test']:
        self_test()
        return 0
    found = sorted(all_structs(), reverse=True)
    if sys.argv[1:] == ['--list']:
        for count, struct, where in found[:20]:
            print(f'{count:4} struct {struct} ({where})')
        return 0
    wrong = [s for s in found if s[0] > MOST]
    for count, struct, where in wrong:
        print(f'{where}: struct {struct} has {count} fields, more than {MOST}')
    if len(found) < 30:
        print(f'only {len(found)} structs were found')
    return 1 if wrong or len(found) < 30 else 0


if __name__ == '__main__':
    sys.exit(main())
