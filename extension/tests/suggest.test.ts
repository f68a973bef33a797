/**
 * Is the right thing offered at a place?  The cursor is the bar in each text.
 */

import { describe, expect, test } from '@jest/globals';
import { Catalog, CATALOG } from '../src/catalog';
import { suggest } from '../src/suggest';
import { SMALL } from './small';

const small = new Catalog(SMALL);

/** What is offered at the bar, with the part of the text that stays as it is. */
function offered(text: string, elsewhere?: Map<string, string>, catalog = small): string[] {
  const offset = text.indexOf('|');
  const cell = text.replace('|', '');
  const { start, items } = suggest(cell, offset, catalog, elsewhere);
  expect(items.length === 0 || (start <= offset && start >= 0)).toBe(true);
  const typed = items.length ? cell.slice(start, offset) : '';
  return [typed, ...items.map(item => item.text)];
}

const body = (text: string, elsewhere?: Map<string, string>) =>
  offered(`%%nki\n${text}`, elsewhere);

describe('magics and their options', () => {
  for (const [text, expected] of [
    ['%%n|', ['%%n', '%%nki']],
    ['a = 1\n%nki|', ['%nki', '%nki', '%nki_target', '%nki_explain']],
    ['a = 1\n%%n|', ['']],
    ['%%nki |', ['', '--run', '--target', '--show', '--quiet', '--expect']],
    ['%%nki --t|', ['--t', '--target']],
    ['%%nki --quiet --|', ['--', '--run', '--target', '--show', '--expect']],
    ['%%nki --| --run f(a)', ['--', '--target', '--show', '--quiet', '--expect']],
    ['%%nki --target |', ['', 'trn1', 'trn2']],
    ['%%nki --target=t|', ['t', 'trn1', 'trn2']],
    ['%%nki --target trn2 |', ['', '--run', '--show', '--quiet', '--expect']],
    ['%%nki --show ir,|', ['', 'memory']],
    ['%%nki --show=m|', ['m', 'memory']],
    ['%%nki --expect N|', ['N', 'NKI203']],
    ['%%nki --run |', ['']],
    ["%%nki --run 'f(nl.|", ['']],
    ['%nki --|', ['--', '--run', '--quiet']],
    ['a = 1\n%nki_target |', ['', 'trn1', 'trn2']],
    ['%nki_explain ps|', ['ps', 'psum']],
    ['%%nki --quiet\n--|', ['']]
  ] as [string, string[]][]) {
    test(JSON.stringify(text), () => expect(offered(text)).toEqual(expected));
  }
});

describe('members', () => {
  for (const [text, expected] of [
    ['nisa.|', ['', 'constants', 'engine', 'nc_matmul', 'tensor_tensor']],
    ['x = nisa.te|', ['te', 'tensor_tensor']],
    ['nki.isa.engine.|', ['', 'gpsimd', 'vector']],
    ['nisa.constants.engine.v|', ['v', 'vector']],
    ['nl.zzz|', ['']],
    ['self.nl.|', ['']],
    ['f().nl|', ['']],
    ['# nisa.|', ['']],
    ["'nisa.|'", ['']],
    ["'nisa' nisa.en|", ['en', 'engine']],
    ['"""doc nl.|', ['']],
    ['import nki.isa as ni\nni.nc|', ['nc', 'nc_matmul']],
    ['import numpy as nl\nnl.|', ['']],
    ['1.|', ['']]
  ] as [string, string[]][]) {
    test(JSON.stringify(text), () => expect(body(text)).toEqual(expected));
  }

  test('in a plain cell only through imports, its own or those of another', () => {
    expect(offered('nisa.nc|')).toEqual(['']);
    expect(offered('import nki.isa as nisa\nnisa.nc|')).toEqual(['nc', 'nc_matmul']);
    expect(offered('q.nc|', new Map([['q', 'nki.isa']]))).toEqual(['nc', 'nc_matmul']);
  });

  test('names themselves, once a letter is typed', () => {
    expect(body('n|')).toEqual(['n', 'nki', 'nl', 'nisa']);
    expect(body('|')).toEqual(['']);
  });
});

describe('arguments', () => {
  for (const [text, expected] of [
    ['nisa.nc_matmul(|', ['', 'dst=', 'stationary=', 'moving=', 'is_transpose=']],
    ['nisa.nc_matmul(acc, m|', ['m', 'moving=']],
    ['nisa.nc_matmul(dst=acc, |)', ['', 'stationary=', 'moving=', 'is_transpose=']],
    ['nisa.nc_matmul(|, moving=b)', ['', 'dst=', 'stationary=', 'is_transpose=']],
    ['nisa.nc_matmul(\n    dst=acc[0, 1],\n    |\n)', ['', 'stationary=', 'moving=', 'is_transpose=']],
    ['nisa.nc_matmul(dst=acc, is_transpose=|', ['', 'True', 'False']],
    ['nisa.nc_matmul(dst=f(|', ['']],
    ['nisa.nc_matmul(dst=a[|', ['']],
    ['nisa.nc_matmul(dst=a + |', ['']],
    ['nisa.tensor_tensor(d, a, b, |', ['', 'op=', 'engine=', 'name=', 'nl.add', 'nl.multiply']],
    ['nisa.tensor_tensor(op=|', ['', 'nl.add', 'nl.multiply']],
    ['nisa.tensor_tensor(op=mul|', ['mul', 'nl.multiply']],
    ['nisa.tensor_tensor(op=nl.|', ['', 'add', 'multiply', 'float32', 'load', 'tile_size']],
    ['nisa.tensor_tensor(op=nl.m|', ['m', 'multiply']],
    ['nisa.tensor_tensor(op=nl.l|', ['l', 'load']],
    ['nisa.tensor_tensor(op=nl.a|', ['a', 'add']],
    ['nisa.tensor_tensor(engine=nisa.engine.|', ['', 'vector', 'gpsimd']],
    ['nl.load(a, dtype=|', ['', 'nl.float32']],
    ['nisa.tensor_tensor(a, "(", b)\n|', ['']],
    ['broken(nl.add(\n|', ['', 'x=', 'y=', 'dtype=']],
    ['broken(nl.add(\ndef f(|', ['']],
    ['f(nl.add)|', ['']]
  ] as [string, string[]][]) {
    test(JSON.stringify(text), () => expect(body(text)).toEqual(expected));
  }

  test('values by the names the notebook gives them', () => {
    const cell = '%%nki\nimport nki.language as lang\nlang.load(a, dtype=|';
    expect(offered(cell)).toEqual(['', 'nl.float32']);
    const plain = 'import nki.language as lang\nlang.load(a, dtype=|';
    expect(offered(plain)).toEqual(['', 'lang.float32']);
    expect(offered('import nki\nnki.language.load(a, dtype=|')).toEqual(['', 'nki.language.float32']);
  });
});

describe('dialects', () => {
  const old = 'import oldnki.nki.language as nl\n';
  const today = new Map([['nl', 'nki.language']]);
  const older = new Map([['nl', 'oldnki.nki.language']]);
  for (const [text, elsewhere, expected] of [
    [`${old}nl.a|`, today, ['a', 'arange']],
    [`${old}nl.load(|`, today, ['', 'src=', 'mask=', 'dtype=']],
    [`${old}nl.load(x, dtype=|`, undefined, ['', 'nl.float32']],
    ['from oldnki import nki\nnl.a|', today, ['a', 'arange']],
    ['import oldnki.nki as nki\nnki.language.a|', undefined, ['a', 'arange']],
    ['import nki\nnl.a|', older, ['a', 'add']],
    ['nl.a|', older, ['a', 'arange']],
    ['nl.a|', undefined, ['a', 'add']]
  ] as [string, Map<string, string> | undefined, string[]][]) {
    test(JSON.stringify([text, [...(elsewhere ?? [])]]), () => expect(body(text, elsewhere)).toEqual(expected));
  }
  test('by an option', () => {
    const at = (text: string) => offered(text, today, CATALOG);
    expect(at('%%nki --dialect beta1\nnl.mg|')).toEqual(['mg', 'mgrid']);
    expect(at('%%nki --nki beta1\nnisa.nc_matmul(s|')).toEqual(['s', 'stationary=']);
    expect(at('%%nki --nki beta1\nnisa.nc_matmul(d|')).toEqual(['']);
    expect(at('%%nki --nki beta1\nncc.sbuf.m|')).toEqual(['m', 'mod_alloc']);
    expect(at('%%nki\nnl.mg|')).toEqual(['']);
  });
});

test('the catalog of nki_lab', () => {
  const at = (text: string) => offered(`%%nki\n${text}`, undefined, CATALOG);
  expect(at('nisa.nc_matmul(dst=acc, s|')).toEqual(['s', 'stationary=']);
  const operators = at('nisa.tensor_tensor(dst=a, data1=b, data2=c, op=nl.|');
  expect(operators.indexOf('maximum')).toBeGreaterThan(0);
  expect(operators.indexOf('maximum')).toBeLessThan(operators.indexOf('affine_range'));
  expect(at('nl.ndarray((128, 4), dtype=bf|')).toEqual(['bf', 'nl.bfloat16']);
  expect(at('nl.ndarray(s, nl.int8, buffer=|')).toContain('nl.psum');
  expect(offered('%%nki --what-if free-l|', undefined, CATALOG)).toEqual(['free-l', 'free-loads', 'free-latency']);
});

describe('names that are newer than the version of a kernel', () => {
  const kernel = (comment: string, member: string) => `@nki.jit\n${comment}\ndef k(x):\n    nl.${member}\n`;
  for (const [text, shown] of [
    ['%%nki\nnl.tile|', true],
    ['%%nki --nki 0.6\nnl.tile|', false],
    ['%%nki --nki 0.6\n# nki: 0.7\nnl.tile|', true],
    ['%%nki\n# nki 0.5\n\nimport math\n\ndef k(x):\n    nl.tile|', false],
    [`%%nki\n${kernel('# NKI: 0.6', 'tile|')}`, false],
    [`%%nki\nimport math\n\n# nki: 0.6\n\n${kernel('', 'tile|')}`, false],
    [`%%nki\nimport math\n\n# nki: 0.6\n${kernel('', 'load')}\n${kernel('', 'tile|')}`, true],
    [`%%nki\n${kernel('', 'tile|')}\n${kernel('# nki: 0.6', 'load')}`, true]
  ] as [string, boolean][]) {
    test(JSON.stringify(text), () => expect(offered(text, undefined, CATALOG).includes('tiles')).toBe(shown));
  }
  test('those of the version itself stay', () =>
    expect(offered('%%nki --nki 0.6\nnl.fori|', undefined, CATALOG)).toEqual(['fori', 'fori_loop']));
});
