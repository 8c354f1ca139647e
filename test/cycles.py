#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cycles.py - which source files call each other in circles, from the symbols of object files.

    test/cycles.py BUILD [LIMITS]              exit code 0: fine; 1: a limit is exceeded; 2: not measured
    test/cycles.py BUILD --planted LIMITS      the limits hold, and a call upwards that is compiled into
                                               a copy of one file breaks them; else exit code 1
    test/cycles.py --self-test                 small programs with and without cycles

  --max DIR=N      the largest cycle has exactly N files below DIR: fewer, too, is an error, so that
                   whoever opens a cycle lowers the limit
  --free DIR       no file below DIR is in a cycle, not even with one file elsewhere
  --acyclic DIR    the folders directly below DIR do not call each other in a circle
  --doors DIR      of a folder NAME directly below DIR, others include NAME/NAME.h only
  --only DIR=A,B   data that is defined below DIR (tables of functions) is named in files A and B only
  --data           a reference to data counts as a call for --free, too
  --json           print the numbers as JSON

A file calls another if its objects need a function that only the other one defines.  Static inline
functions and calls through pointers leave no symbol: --doors, --only and --data are for those.
Objects come from BUILD/compile_commands.json.  A source without an object is an error, not a gap."""
import argparse
import collections
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Unmeasured(Exception):
    """The build does not tell."""


# --- symbols --------------------------------------------------------------------------------------

def objects(build, root):
    """[(source relative to root, object, command)]: one source may have several objects."""
    path = os.path.join(build, 'compile_commands.json')
    try:
        with open(path, encoding='utf-8') as f:
            commands = json.load(f)
    except (OSError, ValueError) as e:
        raise Unmeasured(f'{path}: {e}') from e
    found, missing = [], []
    for c in commands:
        words = c.get('arguments') or shlex.split(c['command'])
        out = c.get('output') or (words[words.index('-o') + 1] if '-o' in words else '')
        source = os.path.relpath(os.path.join(c['directory'], c['file']), root)
        if not source.startswith('src' + os.sep) or not out:
            continue
        out = os.path.join(c['directory'], out)
        (found if os.path.exists(out) else missing).append((source, out, words))
    if missing:
        raise Unmeasured(f'{len(missing)} sources have no object (build first): ' +
                         ', '.join(m[0] for m in missing[:5]))
    if not found:
        raise Unmeasured(f'{path} names no source below src/')
    return found


def symbols_of(files, lto):
    """{object: (functions, data, needed)}"""
    nm = 'gcc-nm' if lto else 'nm'  # of slim objects, plain nm shows nothing but a marker
    out = collections.defaultdict(lambda: (set(), set(), set()))
    for k in range(0, len(files), 200):
        run = subprocess.run([nm, '-P', '-A', *files[k:k + 200]], capture_output=True, text=True,
                             env={**os.environ, 'LC_ALL': 'C'})
        if run.returncode or 'plugin' in run.stderr:
            raise Unmeasured(f'{nm}: {run.stderr.strip() or run.returncode}')
        for line in run.stdout.splitlines():
            m = re.match(r'(.*?)(?:\[.*\])?: (\S+) (\w)', line)
            for kinds, names in zip(('TW', 'DBRVGSC', 'Uw'), out[m[1]] if m else ()):
                if m[3] in kinds:
                    names.add(m[2])
    return out


class House:
    """Who defines and who needs which symbol."""

    def __init__(self, build, root):
        entries = objects(build, root)
        lto = any(w == '-flto' or w.startswith('-flto=') for e in entries for w in e[2])
        table = symbols_of(sorted({e[1] for e in entries}), lto)
        self.functions, self.data, self.needs = (collections.defaultdict(set) for _ in range(3))
        self.commands = {}
        for source, out, words in entries:
            for names, more in zip((self.functions, self.data, self.needs), table[out]):
                names[source] |= more
            self.commands.setdefault(source, (out, words))
        if not any(self.functions.values()):
            raise Unmeasured(f'there is no function in {len(entries)} objects')
        self.where = collections.defaultdict(set)
        for names in (self.functions, self.data):
            for source, all_ in names.items():
                for s in all_:
                    self.where[s].add(source)

    def edges(self, data):
        """{file: {file it calls: [symbols]}}.  A symbol of several files (one or the other is linked)
        tells of no call."""
        out = {source: collections.defaultdict(list) for source in self.commands}
        for source in out:
            for s in sorted(self.needs[source]):
                homes = self.where.get(s, ())
                if len(homes) != 1 or source in homes:
                    continue
                home = next(iter(homes))
                if data or s in self.functions[home]:
                    out[source][home].append(s)
        return out


# --- circles --------------------------------------------------------------------------------------

def components(edges):
    """Strongly connected components, largest first (Tarjan, without recursion)."""
    index, low, stack, out = {}, {}, [], []
    on = set()

    def enter(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        return node, iter(sorted(edges[node]))

    for root in sorted(edges):
        work = [] if root in index else [enter(root)]
        while work:
            node, rest = work[-1]
            to = next((t for t in rest if t in edges and (t not in index or t in on)), None)
            if to is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    one = stack[stack.index(node):]
                    del stack[-len(one):]
                    on.difference_update(one)
                    out.append(sorted(one))
            elif to in index:
                low[node] = min(low[node], index[to])
            else:
                work.append(enter(to))
    return sorted(out, key=lambda c: (-len(c), c))


def cycles_of(edges):
    return [c for c in components(edges) if len(c) > 1]


def shortest(edges, members):
    """The files of a shortest cycle among these."""
    best = None
    for start in sorted(members):
        before, todo = {start: None}, collections.deque([start])
        while todo:
            node = todo.popleft()
            if start in edges.get(node, ()):
                way = [node]
                while before[way[-1]]:
                    way.append(before[way[-1]])
                if not best or len(way) < len(best):
                    best = way[::-1]
                break
            for to in sorted(edges.get(node, ())):
                if to in members and to not in before:
                    before[to] = node
                    todo.append(to)
    return best


def tell(edges, members):
    way = shortest(edges, set(members))
    lines = []
    for a, b in zip(way, way[1:] + way[:1]):
        names = edges[a][b]
        lines.append(f"    {a} -> {b}: {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}")
    return '\n'.join(lines)


def below(folder, file):
    return file.startswith(folder + '/')


def folders_of(edges, folder):
    """The folders directly below a folder, as one graph; files of the folder itself are left out."""
    out = collections.defaultdict(lambda: collections.defaultdict(list))

    def room(file):
        rest = file[len(folder) + 1:] if below(folder, file) else ''
        return rest.split('/')[0] if '/' in rest else None

    for a, tos in edges.items():
        if room(a):
            out[room(a)]
        for b, names in tos.items():
            if room(a) and room(b) and room(a) != room(b):
                out[room(a)][room(b)] += [f'{n} ({os.path.basename(a)})' for n in names]
    return out


# --- limits ---------------------------------------------------------------------------------------

def largest_in(cycles, folder):
    return max([sum(below(folder, f) for f in c) for c in cycles] + [1])


def known(edges, folder, option):
    if not any(below(folder, f) for f in edges):
        raise Unmeasured(f'{option} {folder}: there is no source')
    return folder


def check_max(edges, limits, tight):
    cycles = cycles_of(edges)
    for limit in limits:
        folder, _, most = limit.rpartition('=')
        size = largest_in(cycles, known(edges, folder, '--max'))
        if size > int(most):
            yield f'{folder}: a cycle of {size} files; at most {most} are allowed'
        elif tight and size < int(most):
            yield f'{folder}: the largest cycle has {size} files: lower its limit, which is {most}'


def check_free(edges, folders):
    for folder in folders:
        known(edges, folder, '--free')
        for c in cycles_of(edges):
            if any(below(folder, f) for f in c):
                yield f'{folder}: its files are in a cycle:\n' + tell(edges, c)


def check_acyclic(edges, folders):
    for folder in folders:
        rooms = folders_of(edges, folder)
        if not rooms:
            raise Unmeasured(f'--acyclic {folder}: there are no folders')
        for c in cycles_of(rooms):
            yield f"{folder}: these folders call each other in a circle: {', '.join(c)}\n" + \
                tell(rooms, c)


def check_doors(root, folders):
    """Only a folder's own files include its private headers."""
    for path, _, names in os.walk(os.path.join(root, 'src')):
        for name in sorted(n for n in names if n.endswith(('.c', '.h'))):
            file = os.path.relpath(os.path.join(path, name), root)
            with open(os.path.join(root, file), encoding='utf-8') as f:
                lines = f.read().splitlines()
            for number, line in enumerate(lines, 1):
                m = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                for folder in folders if m else ():
                    target = os.path.join('src', m[1])
                    parts = target[len(folder) + 1:].split('/')
                    if below(folder, target) and len(parts) > 1 and \
                            parts[1:] != [parts[0] + '.h'] and \
                            not below(f'{folder}/{parts[0]}', file):
                        yield f'{file}:{number}: {m[1]} is private to {folder}/{parts[0]}'


def check_only(house, limits):
    for limit in limits:
        folder, _, names = limit.rpartition('=')
        allowed = names.split(',')
        for file in sorted(house.commands):
            for s in sorted(house.needs[file]):
                for home in sorted(house.where.get(s, ())):
                    if s in house.data[home] and below(folder, home) and file not in allowed and \
                            os.path.dirname(file) != os.path.dirname(home):
                        yield f"{file}: names {s} of {home}; only {', '.join(allowed)} may"


def check(house, args):
    calls, all_ = house.edges(False), house.edges(True)
    return [*check_max(calls, args.max, not args.planted),
            *check_free(all_ if args.data else calls, args.free),
            *check_acyclic(calls, args.acyclic), *check_doors(args.root, args.doors),
            *check_only(house, args.only)]


def show(house, args, failed):
    edges = house.edges(False)
    cycles = cycles_of(edges)
    sizes = collections.Counter()
    for file in edges:
        folder = os.path.dirname(file)
        while folder:
            sizes[folder] += 1
            folder = os.path.dirname(folder)
    largest = {d: largest_in(cycles, d) for d in sizes}
    if args.json:
        print(json.dumps({'folders': {d: {'files': sizes[d], 'largest': largest[d]}
                                      for d in sorted(sizes)},
                          'cycles': cycles, 'failed': failed}, indent=1))
        return
    print(f"{'folder':28}{'files':>6}{'largest cycle':>15}")
    for d in sorted(sizes):
        if largest[d] > 1 or d.count('/') <= 1:
            print(f"{d:28}{sizes[d]:6}{largest[d] if largest[d] > 1 else '-':>15}")
    for c in cycles:
        print(f"\ncycle of {len(c)} files: {' '.join(c[:8])}{' ...' if len(c) > 8 else ''}")
        print(tell(edges, c))


# --- a cycle on purpose -----------------------------------------------------------------------------

def callees(house, args):
    """(a, b, function of a): a calls b, and if b named that function, a limit would break."""
    edges = house.edges(False)
    for a in sorted(edges):
        for b in sorted(edges[a]):
            if a in edges[b] or not house.functions[a]:
                continue
            edges[b][a] = sorted(house.functions[a])[:1]
            broken = [*check_max(edges, args.max, False), *check_free(edges, args.free)]
            del edges[b][a]
            if broken:
                yield a, b, sorted(house.functions[a])[0]
                break


def plant(house, args, folder, caller, function):
    """A build that is like this one, but for a call of this function in this file."""
    out, words = house.commands[caller]
    copy = os.path.join(folder, os.path.basename(caller))
    with open(os.path.join(args.root, caller), encoding='utf-8') as f:
        text = f.read()
    with open(copy, 'w', encoding='utf-8') as f:
        f.write(text + f'\nextern void {function}_(void) __asm__("{function}");\n'
                       f'void tw_planted_(void);\nvoid tw_planted_(void)\n{{\n\t{function}_();\n}}\n')
    with open(os.path.join(args.build, 'compile_commands.json'), encoding='utf-8') as f:
        commands = json.load(f)
    for c in commands:
        source = os.path.relpath(os.path.join(c['directory'], c['file']), args.root)
        if source != caller:
            continue
        command = c.get('arguments') or shlex.split(c['command'])
        planted = os.path.join(folder, 'planted.o')
        new = [copy if os.path.join(c['directory'], w) == os.path.join(c['directory'], c['file'])
               else planted if w == command[command.index('-o') + 1] else w for w in command]
        done = subprocess.run(new, cwd=c['directory'], capture_output=True, text=True)
        if done.returncode:
            raise Unmeasured(f'{caller} cannot be compiled again: {done.stderr}')
        c.update(arguments=new, output=planted)
        c.pop('command', None)
    with open(os.path.join(folder, 'compile_commands.json'), 'w', encoding='utf-8') as f:
        json.dump(commands, f)
    return House(folder, args.root)


def planted(house, args):
    found = next(callees(house, args), None)
    if not found:
        print('cycles.py: no call upwards would break these limits', file=sys.stderr)
        return 1
    callee, caller, function = found
    with tempfile.TemporaryDirectory() as folder:
        failed = check(plant(house, args, folder, caller, function), args)
    if not any(callee in f or 'a cycle of' in f for f in failed):
        print(f'cycles.py: {caller} calls {function} of {callee}, and no limit is exceeded: {failed}',
              file=sys.stderr)
        return 1
    print(f'{caller} made to call {function} of {callee}:\n' + '\n'.join(failed))
    return 0


# --- main -------------------------------------------------------------------------------------------

def main(argv):
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument('build', nargs='?')
    for flag in ('--max', '--free', '--acyclic', '--doors', '--only'):
        p.add_argument(flag, action='append', default=[])
    for flag in ('--data', '--json', '--planted', '--self-test'):
        p.add_argument(flag, action='store_true')
    p.add_argument('--root', default=ROOT, help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    if args.self_test:
        return self_test()
    if not args.build:
        p.error('which build directory?')
    try:
        house = House(args.build, args.root)
        failed = check(house, args)
        if not failed and args.planted:
            return planted(house, args)
    except Unmeasured as e:
        print(f'cycles.py: {e}', file=sys.stderr)
        return 2
    show(house, args, failed)
    for f in failed:
        print('cycles.py: ' + f, file=sys.stderr)
    return 1 if failed else 0


# --- self-test: a guard that cannot fail is none --------------------------------------------------

LINE = {'src/node/duty/a/a.c': 'int b(int); int a(int x) { return b(x) + 1; }',
        'src/node/duty/b/b.c': 'int c(int); int b(int x) { return c(x) + 1; }',
        'src/node/kernel/c.c': 'int c(int x) { return x; }'}
RING = {**LINE, 'src/node/duty/b/b.c': 'int a(int); int b(int x) { return x ? a(x - 1) : 0; }'}
PAIR = {'src/node/duty/a/a.c': 'int m(int); int a(int x) { return x ? m(x - 1) : 0; }',
        'src/node/kernel/m.c': 'int a(int); int m(int x) { return a(x); }'}
HIDDEN = {'src/node/duty/a/a.c': 'int call(int); int a(int x) { return call(x); }',
          'src/node/duty/b/b.c': 'int call(int); int b(int x) { return call(x); }',
          'src/node/duty/b/table.c': 'int a(int); int b(int); int (*const all[])(int) = { a, b };',
          'src/node/kernel/c.c': 'extern int (*const all[])(int); '
                                 'int call(int x) { return x ? all[x](0) : 0; }'}
PEEP = {**LINE, 'src/node/duty/b/b.h': '', 'src/node/duty/b/b_state.h': '',
        'src/node/duty/a/a.c': '#include "node/duty/b/b.h"\n'
                               '#include "node/duty/b/b_state.h"\nint a;'}
DUTY = ('--free', 'src/node/duty')
# files, flags of the compiler, exit code, options
CASES = [
    *((files, flags, code, options) for flags in ((), ('-flto',), ('-flto', '-ffat-lto-objects'))
      for files, code, options in (
          (LINE, 0, ('--max', 'src/node=1', '--acyclic', 'src/node/duty', *DUTY)),
          (RING, 1, ('--max', 'src/node=1')),
          (RING, 0, ('--max', 'src/node=2')),
          (RING, 1, ('--max', 'src/node=3')),
          (RING, 1, ('--acyclic', 'src/node/duty')),
          (RING, 1, DUTY),
          (RING, 0, ('--free', 'src/node/kernel')),
          (PAIR, 1, DUTY),
          (HIDDEN, 0, ('--max', 'src/node=1', *DUTY)),
          (HIDDEN, 1, ('--data', *DUTY)),
          (HIDDEN, 1, ('--only', 'src/node/duty=src/node/master.c')),
          (HIDDEN, 0, ('--only', 'src/node/duty=src/node/kernel/c.c')),
          (LINE, 0, ('--planted', *DUTY)),
          (LINE, 0, ('--planted', '--max', 'src/node=1')))),
    (LINE, (), 1, ('--planted', '--max', 'src/node=3')),
    (PEEP, (), 1, ('--doors', 'src/node/duty')),
    (LINE, (), 0, ('--doors', 'src/node/duty')),
    (LINE, (), 2, ('--max', 'src/nowhere=1')),
    (LINE, (), 2, ('--free', 'src/nowhere')),
]


def tree(folder, files, flags):
    """These files, compiled; returns the build folder."""
    build, commands = os.path.join(folder, 'build'), []
    os.makedirs(build, exist_ok=True)
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
    for name in (n for n in files if n.endswith('.c')):
        words = ['cc', '-O2', *flags, f'-I{folder}/src', '-o', name.replace('/', '_') + '.o', '-c',
                 os.path.join(folder, name)]
        subprocess.run(words, check=True, cwd=build)
        commands.append({'directory': build, 'file': words[-1], 'arguments': words})
    with open(os.path.join(build, 'compile_commands.json'), 'w', encoding='utf-8') as f:
        json.dump(commands, f)
    return build


def quietly(argv):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(argv)
    return code, said.getvalue()


def self_test():
    wrong, made = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for files, flags, want, options in CASES:
            key = (id(files), flags)
            if key not in made:
                root = os.path.join(folder, str(len(made)))
                made[key] = root, tree(root, files, flags)
            root, build = made[key]
            code, said = quietly([build, '--root', root, *options])
            if code != want:
                wrong += 1
                print(f'{flags} {options}: exit code {code}, not {want}\n{said}')
        os.remove(os.path.join(build, 'src_node_kernel_c.c.o'))
        code, said = quietly([build, '--root', root])
        if code != 2:
            wrong += 1
            print(f'an object is missing: exit code {code}, not 2\n{said}')
    print(f'{len(CASES) + 1} cases, {wrong} wrong')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
