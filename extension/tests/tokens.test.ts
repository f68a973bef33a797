/**
 * Are the right pieces of a cell found?  Each expectation is the cell with its tokens in guillemets.
 */

import { describe, expect, test } from '@jest/globals';
import { CATALOG } from '../src/catalog';
import { tokenizer } from '../src/tokens';
import { SMALL } from './small';

function marked(cell: string, elsewhere?: Map<string, string>): string {
  let text = '';
  let end = 0;
  for (const { from, to, kind } of tokenizer(SMALL)(cell, elsewhere)) {
    // In order, not empty, and none over another.
    expect(from).toBeGreaterThanOrEqual(end);
    expect(to).toBeGreaterThan(from);
    text += `${cell.slice(end, from)}«${kind} ${cell.slice(from, to)}»`;
    end = to;
  }
  return text + cell.slice(end);
}

/** The body of a cell, marked. */
const body = (text: string, elsewhere?: Map<string, string>) =>
  marked(`%%nki\n${text}`, elsewhere).slice('«magic %%nki»\n'.length);

describe('which cells', () => {
  for (const cell of [
    '',
    'nisa.tensor_tensor(a)',
    '# %%nki\nnisa.tensor_tensor(a)',
    '%%nkix\nnisa.tensor_tensor(a)',
    '%%nki.x\nnisa.tensor_tensor(a)',
    '%%time\nnisa.tensor_tensor(a)',
    'a\n%%nki\nnisa.tensor_tensor(a)',
    '%%constructor --quiet\nnisa.tensor_tensor(a)'
  ]) {
    test(`not ${JSON.stringify(cell)}`, () => expect(marked(cell)).toBe(cell));
  }

  test('the magic alone', () => expect(marked('%%nki')).toBe('«magic %%nki»'));

  test('below blank lines and indented, as IPython takes it', () =>
    expect(marked('\n\n  %%nki\nnl.add')).toBe('\n\n  «magic %%nki»\n«language nl.add»'));
});

describe('options', () => {
  for (const [line, expected] of [
    ['%%nki --quiet', '«magic %%nki» «option --quiet»'],
    ['%%nki --quite', '«magic %%nki» --quite'],
    ['%%nki --target trn2', '«magic %%nki» «option --target» «value trn2»'],
    ['%%nki --target=trn2', '«magic %%nki» «option --target»=«value trn2»'],
    ['%%nki --target trn0 trn2', '«magic %%nki» «option --target» trn0 trn2'],
    ['%%nki --show ir,memory', '«magic %%nki» «option --show» «value ir»,«value memory»'],
    ['%%nki --show=x,ir', '«magic %%nki» «option --show»=x,«value ir»'],
    ['%%nki trn2 --quiet', '«magic %%nki» trn2 «option --quiet»'],
    ["%%nki --run 'f(a, b)' --quiet", "«magic %%nki» «option --run» 'f(a, b)' «option --quiet»"],
    ["%%nki --run 'a --quiet", "«magic %%nki» «option --run» 'a --quiet"],
    ['%%nki --run="a \\" --quiet"', '«magic %%nki» «option --run»="a \\" --quiet"'],
    ['%%nki --run nl.add(a)', '«magic %%nki» «option --run» nl.add(a)'],
    ['%%nki --expect NKI203', '«magic %%nki» «option --expect» «value NKI203»'],
    ['%%nki --run --quiet', '«magic %%nki» «option --run» «option --quiet»']
  ]) {
    test(line, () => expect(marked(line)).toBe(expected));
  }

  test('not below the first line', () => expect(body('--quiet')).toBe('--quiet'));
});

describe('names', () => {
  for (const [text, expected] of [
    ['nisa.tensor_tensor(dst=a, op=nl.add)', '«isa nisa.tensor_tensor»(dst=a, op=«language nl.add»)'],
    ['@nki.jit', '@«api nki.jit»'],
    ['nki.isa.nc_matmul(x)', '«isa nki.isa.nc_matmul»(x)'],
    ['import nki.language as nl', 'import «language nki.language» as nl'],
    ['nisa.constants.engine.vector', '«isa nisa.constants.engine.vector»'],
    ['engine=nisa.engine.vector)', 'engine=«isa nisa.engine.vector»)'],
    ['nl.tile_size.pmax', '«language nl.tile_size».pmax'],
    ['nisa.tensor_tensr(a)', 'nisa.tensor_tensr(a)'],
    ['nisa.add', 'nisa.add'],
    ['nisa', 'nisa'],
    ['self.nl.add', 'self.nl.add'],
    ['f().nl.add', 'f().nl.add'],
    ['xnl.add', 'xnl.add'],
    ['énl.add', 'énl.add'],
    ['nl.addé', 'nl.addé'],
    ['constructor.add', 'constructor.add'],
    ['nl.constructor', 'nl.constructor']
  ]) {
    test(text, () => expect(body(text)).toBe(expected));
  }
});

describe('names that imports give', () => {
  for (const [text, expected] of [
    ['import nki.isa as ni\nni.nc_matmul', 'import «isa nki.isa» as ni\n«isa ni.nc_matmul»'],
    ['from nki import language as L\nL.add(L.x)', 'from nki import language as L\n«language L.add»(L.x)'],
    [
      'from nki.isa import (\n  nc_matmul as mm,  # the product\n)\nmm(x)',
      'from «isa nki.isa» import (\n  nc_matmul as «isa mm»,  # the product\n)\n«isa mm»(x)'
    ],
    [
      'from nki.isa import nc_matmul; nc_matmul(x)',
      'from «isa nki.isa» import «isa nc_matmul»; «isa nc_matmul»(x)'
    ],
    ['from nki.language import *\nadd(x)', 'from «language nki.language» import *\n«language add»(x)'],
    ['import nki_lab.language as nll\nnll.add', 'import nki_lab.language as nll\n«language nll.add»'],
    ['\'\'\'import nki.isa as ni\'\'\'\nni.nc_matmul', '\'\'\'import nki.isa as ni\'\'\'\nni.nc_matmul'],
    ['import numpy as ni\nni.nc_matmul', 'import numpy as ni\nni.nc_matmul']
  ]) {
    test(JSON.stringify(text), () => expect(body(text)).toBe(expected));
  }

  test('in another cell', () => {
    const elsewhere = new Map([['ni', 'nki.isa']]);
    expect(body('ni.nc_matmul', elsewhere)).toBe('«isa ni.nc_matmul»');
    expect(body('import oldnki.nki.language as nl\nnl.arange')).toContain('«language nl.arange»');
  });

  test('of something else hide what is ready', () => {
    expect(body('import numpy as nl\nnl.add')).toBe('import numpy as nl\nnl.add');
    expect(body('from torch import nl\nnl.add')).toBe('from torch import nl\nnl.add');
  });
});

describe('line magics in plain cells', () => {
  for (const [cell, expected] of [
    ['a = 1\n%nki --quiet --run f(a)', 'a = 1\n«magic %nki» «option --quiet» «option --run» f(a)'],
    ['%nki --quiet\nnisa.nc_matmul', '«magic %nki» «option --quiet»\nnisa.nc_matmul'],
    ['%nki_target trn2', '«magic %nki_target» «value trn2»'],
    ['  %nki_target trn0', '  «magic %nki_target» trn0'],
    ['%nki_explain NKI203', '«magic %nki_explain» «value NKI203»'],
    ['%nki_other trn2', '%nki_other trn2'],
    ['%%time\n%nki_target trn2', '%%time\n%nki_target trn2'],
    ['x = 5 %nki_target', 'x = 5 %nki_target']
  ]) {
    test(JSON.stringify(cell), () => expect(marked(cell)).toBe(expected));
  }
});

describe('comments and strings are passed over', () => {
  for (const [text, expected] of [
    ['# nl.add\nnl.add', '# nl.add\n«language nl.add»'],
    ["'nl.add' nl.add", "'nl.add' «language nl.add»"],
    ['"nl.add" nl.add', '"nl.add" «language nl.add»'],
    ["rb'\\' nl.add' nl.add", "rb'\\' nl.add' «language nl.add»"],
    ["'it\nnl.add", "'it\n«language nl.add»"],
    ['"# " nl.add', '"# " «language nl.add»'],
    ['"""a "nl.add"\n" nl.add\\""" nl.add""" nl.add', '"""a "nl.add"\n" nl.add\\""" nl.add""" «language nl.add»'],
    ["'''nl.add\n\"\"\" nl.add''' nl.add", "'''nl.add\n\"\"\" nl.add''' «language nl.add»"],
    ['"""never closed nl.add\nnl.add', '"""never closed nl.add\nnl.add'],
    ["'' nl.add", "'' «language nl.add»"]
  ]) {
    test(JSON.stringify(text), () => expect(body(text)).toBe(expected));
  }
});

test('the catalog of nki_lab: a kernel as it is written', () => {
  const cell = [
    '%%nki --target trn2 --show report,ir --run "scale(a, 2)" --check "a * 2"',
    '@nki.jit',
    'def scale(a, by):',
    '    """Not nl.load in here."""',
    '    t = nl.load(a)  # nl.load',
    '    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=by)',
    '    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)',
    '    nisa.dma_copy(dst=out, src=t)',
    '    return out'
  ].join('\n');
  const found = tokenizer(CATALOG)(cell).map(({ from, to, kind }) => `${kind} ${cell.slice(from, to)}`);
  expect(found).toEqual([
    'magic %%nki',
    'option --target',
    'value trn2',
    'option --show',
    'value report',
    'value ir',
    'option --run',
    'option --check',
    'api nki.jit',
    'language nl.load',
    'isa nisa.tensor_scalar',
    'language nl.multiply',
    'language nl.ndarray',
    'language nl.shared_hbm',
    'isa nisa.dma_copy'
  ]);
});

test('every line of a long cell', () => {
  const line = '    nisa.tensor_tensor(dst=a, data1=b, data2="x", op=nl.add)  # nl.add\n';
  const tokens = tokenizer(SMALL)(`%%nki\n${line.repeat(5000)}`);
  expect(tokens).toHaveLength(1 + 2 * 5000);
});
