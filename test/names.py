#!/usr/bin/env python3
"""names.py [ROOT | --self-test]: no variant is known by name outside its own file.

Collects the names of all variants from their folders, and looks for them in the string literals
and symbols of src/.  Prints one line per offence, "file:line: what", and exits with 1 if there was
any.  Four ways to know a variant are looked for:

  symbol   tw_rule_dana, its table
  literal  "dana" alone: a comparison, a look-up, a list
  choice   "... use rule: dana ..." in a sentence
  word     "... dana ..." in a sentence, for names that mean nothing else

Data may name variants: presets, what other programs call things, rows of options (a default, a
help), examples, jobs that the program writes for itself, and text of layers where networks are
written.
"""
import glob
import os
import re
import sys
import tempfile

# kind: folder, the fields of a job that choose it
KINDS = {
    'gate': ('strategy/gate', ['gate']),
    'staleness': ('strategy/staleness', ['staleness']),
    'rule': ('strategy/rule', ['rule']),
    'outer': ('strategy/outer', ['outer']),
    'codec': ('strategy/codec', ['codec', 'up', 'down']),
    'reduction': ('strategy/reduction', ['schedule', 'topology']),
    'mixing': ('strategy/mixing', ['mixing', 'topology']),
    'optimiser': ('strategy/optimiser', ['optimiser']),
    'pipeline': ('strategy/pipeline', ['pipeline', 'schedule']),
    'loss': ('graph/loss', ['loss']),
    'source': ('data/source', ['source']),
    'zoo': ('model/zoo', []),
    'op': ('graph/op', []),
    'verb': ('cli/verb', []),
}

# Names that are also other things: a literal that is such a word alone says nothing.
OTHER_MEANINGS = set('''
    none mean momentum nesterov average delay gap inverse multi backup async
    linear local scale add caller csv npy idx images tar digits text tokens softmax sigmoid tanh affine
    library summary stream
'''.split())

# Kinds whose names are used in examples for people ("such as 'linear 10'", "model: lenet").
EXAMPLES = {'op', 'zoo', 'source', 'verb'}

# Data that names variants: why, files, kinds.
DATA = [
    ('presets are fields of a job', r'spec/presets\.c', None),
    ('names of other programs', r'spec/help/(synonyms|hint)\.c', None),
    ('what a job without a model trains', r'data/source/csv\.c', {'rule'}),
    ('jobs that the program runs by itself', r'bench/.*|cli/verb/doctor\.c', None),
    ('text of layers', r'model/zoo/.*|model/layer_list\.c|checkpoint/model_card_make\.c', {'op'}),
    ('the words of a model card', r'checkpoint/model_card\.c', {'op'}),
]

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def blank(text):
    return re.sub(r'[^\n]', ' ', text)


def without_comments(text):
    both = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|/\*.*?\*/|//[^\n]*', re.S)
    return both.sub(lambda m: m.group(0) if m.group(0)[0] in '"\'' else blank(m.group(0)), text)


def without_call(text, name):
    """Blank NAME(...) up to its closing bracket, wherever it is called."""
    at = 0
    while True:
        m = re.compile(name + r'\(').search(text, at)
        if not m:
            return text
        i, depth = m.end(), 1
        while i < len(text) and depth:
            literal = LITERAL.match(text, i)
            if literal:
                i = literal.end()
                continue
            depth += {'(': 1, ')': -1}.get(text[i], 0)
            i += 1
        text = text[:m.start()] + blank(text[m.start():i]) + text[i:]
        at = i


def without_data(text):
    text = re.sub(r'^[ \t]*#[ \t]*include[^\n]*', lambda m: blank(m.group(0)), text, flags=re.M)
    text = re.sub(r'struct tw_example \w+\[\] = \{.*?\n\};', lambda m: blank(m.group(0)), text,
                  flags=re.S)
    return without_call(without_call(text, r'\bTW_OPTION\w*'), r'\bTW_FLAG\w*')


def sentences(text):
    """(line, literal) of each literal; those that the compiler joins are one."""
    out = []
    end = None
    for m in LITERAL.finditer(text):
        line = text.count('\n', 0, m.start()) + 1
        if out and end is not None and not text[end:m.start()].strip():
            out[-1] = (out[-1][0], out[-1][1] + m.group(1))
        else:
            out.append((line, m.group(1)))
        end = m.end()
    return out


class Variant:
    def __init__(self, kind, name, file):
        self.kind, self.name, self.file = kind, name, file
        self.symbol = 'tw_%s_%s' % (kind, name.replace('-', '_'))


def variants(root):
    found, bad = [], []
    for kind, (folder, _) in KINDS.items():
        for path in sorted(glob.glob(os.path.join(root, 'src', folder, '*.c'))):
            file = os.path.relpath(path, os.path.join(root, 'src'))
            text = open(path).read()
            names = re.findall(r'const struct tw_%s \w+ = \{\s*(?:\.op = \{\s*)?\.name = "([^"]+)"'
                               % ('rule' if kind == 'outer' else kind), text)
            base = os.path.basename(path)[:-2].replace('_', '-')
            if kind != 'op' and names != [base]:
                bad.append('src/%s:1: defines %s, not %s' % (file, ', '.join(names) or 'nothing',
                                                            base))
            found += [Variant(kind, name, file) for name in names]
    return found, bad


def is_data(file, kind):
    return any(re.fullmatch(pattern, file) and (not kinds or kind in kinds)
               for _, pattern, kinds in DATA)


def word(name):
    return r'(?<![\w-])%s(?![\w-])' % re.escape(name)


def known(v, file, literal):
    """How the literal of that file knows the variant, or None."""
    if v.name not in literal:
        return None
    in_variants = any(file.startswith(folder + '/') for folder, _ in KINDS.values())
    if literal == v.name:
        return 'literal' if v.kind != 'verb' and v.name not in OTHER_MEANINGS else None
    for field in KINDS[v.kind][1]:
        # "rule: x", "rule: y or x", "rule: y, z or x", "rule: {up: x"
        if re.search(r'\b%s: \{?(?:[\w-]+, )*(?:[\w-]+ or )?%s' % (field, word(v.name)), literal):
            return 'choice'
    # a variant's own file may describe it by others
    if v.kind not in EXAMPLES and v.name not in OTHER_MEANINGS and not in_variants:
        if re.search(word(v.name), literal):
            return 'word'
    return None


def check(root):
    found, bad = variants(root)
    for path in sorted(glob.glob(os.path.join(root, 'src', '**', '*.[ch]'), recursive=True)):
        file = os.path.relpath(path, os.path.join(root, 'src'))
        text = without_comments(open(path).read())
        said = sentences(without_data(text))
        for v in found:
            if file == v.file:
                continue
            hits = re.finditer(r'\b%s\b' % v.symbol, text) if v.symbol in text else []
            for m in hits:
                bad.append('src/%s:%d: knows the %s %s by its symbol'
                           % (file, text.count('\n', 0, m.start()) + 1, v.kind, v.name))
            if is_data(file, v.kind):
                continue
            for line, literal in said:
                how = known(v, file, literal)
                if how:
                    bad.append('src/%s:%d: knows the %s %s by its name (%s)'
                               % (file, line, v.kind, v.name, how))
    return bad, len(found)


def self_test():
    failed = 0

    def expect(file, code, offence):
        nonlocal failed
        with tempfile.TemporaryDirectory() as root:
            files = {
                'strategy/rule/dana.c': 'const struct tw_rule tw_rule_dana = {\n\t.name = "dana",',
                'strategy/rule/momentum.c':
                    'const struct tw_rule tw_rule_momentum = {\n\t.name = "momentum",',
                'graph/loss/mean-squared.c': 'const struct tw_loss tw_loss_mean_squared = {\n'
                                             '\t.op = {\n\t\t.name = "mean-squared",',
                'graph/op/a.c': 'static const struct tw_op relu_op = {\n\t.name = "relu",',
            }
            files[file] = code
            for name, text in files.items():
                path = os.path.join(root, 'src', name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, 'w') as f:
                    f.write(text + '\n')
            said = check(root)[0]
            right = len(said) == 1 and offence in said[0] if offence else not said
            if not right:
                print('%s: %s: said %s, not %s' % (file, code, said, offence))
                failed = 1

    a = 'spec/a.c'
    expect(a, 'if (strcmp(rule, "dana") == 0)', 'src/spec/a.c:1: knows the rule dana by its name')
    expect(a, '\n\nextern x = &tw_rule_dana;', 'src/spec/a.c:3: knows the rule dana by its symbol')
    expect(a, 'say("use rule: sgd or "\n"momentum");', 'the rule momentum by its name (choice)')
    expect(a, 'say("not with dana, please");', 'the rule dana by its name (word)')
    expect(a, 'say("loss: %s", "mean-squared");', 'the loss mean-squared by its name (literal)')
    expect(a, 'op = tw_op_find("relu");', 'the op relu by its name (literal)')
    expect('model/zoo/mlp.c', 'x = tw_op_find("relu");', 'defines nothing')
    expect('strategy/rule/nag.c', 'const struct tw_rule tw_rule_nag = {\n\t.name = "gan",',
           'defines gan, not nag')
    expect(a, 'json(o, "momentum"); /* "dana" and tw_rule_dana */ // "dana"', None)
    expect(a, 'say("danaides", "mdana", "tw_rule_dana_options", \'"\', "such as relu");', None)
    expect(a, 'rows = { TW_OPTION(S, rule, TW_TEXT, "dana", NULL, 0, f(1), "see dana") };', None)
    expect(a, 'static const struct tw_example e[] = {\n\t{ "help dana", "dana" },\n};', None)
    expect('spec/presets.c', 'p = "update: {rule: dana}";', None)
    expect('strategy/rule/dana2.c', 'const struct tw_rule tw_rule_dana2 = {\n\t.name = "dana2",\n'
           '\t.help = "like dana",', None)
    if not failed:
        print('names: every offence of the self-test was noticed')
    return failed


def main():
    if sys.argv[1:] == ['--self-test']:
        return self_test()
    if len(sys.argv) > 2 or sys.argv[1:] and sys.argv[1].startswith('-'):
        print('usage: test/names.py [ROOT | --self-test]', file=sys.stderr)
        return 2
    root = sys.argv[1] if sys.argv[1:] else os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                       '..')
    bad, count = check(root)
    for line in bad:
        print(line)
    if bad or count < 60:
        print('names: %d offences, %d variants; a word that means something else there belongs in '
              'OTHER_MEANINGS' % (len(bad), count))
        return 1
    print('names: none of %d variants is known by name outside its file' % count)
    return 0


if __name__ == '__main__':
    sys.exit(main())
