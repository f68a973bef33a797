/**
 * @jest-environment jsdom
 *
 * Is a word explained by what is known of it, and shown as text?  The bar is where the pointer is.
 */

import { describe as group, expect, test } from '@jest/globals';
import { cardOf } from '../src/card';
import { Catalog, CATALOG } from '../src/catalog';
import { describe } from '../src/describe';
import { SMALL } from './small';

const small = new Catalog(SMALL);

function at(text: string, elsewhere?: Map<string, string>, catalog = small) {
  const offset = text.indexOf('|');
  const cell = text.replace('|', '');
  const card = describe(cell, offset, catalog, elsewhere);
  return card && { ...card, text: cell.slice(card.from, card.to) };
}

group('what is pointed at', () => {
  for (const [text, about, title] of [
    ['%%nki\nnisa.nc_m|atmul(a)', 'nisa.nc_matmul', 'nisa.nc_matmul(dst, stationary, moving, is_transpose=False)'],
    ['%%nki\nnisa.engine.vec|tor', 'nisa.engine.vector', 'nisa.engine.vector'],
    ['%%nki\nnisa.eng|ine.vector', 'nisa.engine', 'nisa.engine'],
    ['%%nki\nnki.isa.constants.engine.gp|simd', 'nki.isa.constants.engine.gpsimd', 'nki.isa.constants.engine.gpsimd'],
    ['%%nki\nni|sa.nc_matmul', undefined, undefined],
    ['%%nki\nnisa.wro|ng', undefined, undefined],
    ['%%nki\n# nl.a|dd', undefined, undefined],
    ['%%nki\n"nl.a|dd"', undefined, undefined],
    ['nl.a|dd', undefined, undefined],
    ['import nki.language as L\nL.a|dd', 'L.add', 'L.add(x, y, dtype=None)'],
    ['%%nki\nfrom nki.isa import nc_matmul as mm\nmm|(x)', 'mm', 'mm(dst, stationary, moving, is_transpose=False)'],
    ['%%nki\nnisa.nc_matmul(a, mov|ing=b)', 'moving', 'moving of nisa.nc_matmul'],
    ['%%nki\nnisa.nc_matmul(a, is_tr|anspose=1)', 'is_transpose', 'is_transpose=False of nisa.nc_matmul'],
    ['%%nki\nnisa.nc_matmul(a, wro|ng=b)', undefined, undefined],
    ['%%nki\nf(mov|ing=b)', undefined, undefined],
    ['%%n|ki --quiet', '%%nki', '%%nki'],
    ['%%nki --qui|et', '--quiet', '--quiet'],
    ['%%nki --target t|rn2', 'trn2', '--target NAME'],
    ['%%nki --target t|rn9', undefined, undefined],
    ['%%nki --run f(nl|.add)', undefined, undefined],
    ['%%nki --expect NKI2|03', 'NKI203', 'NKI203'],
    ['%nki_explain nc_m|atmul', 'nc_matmul', 'nc_matmul(dst, stationary, moving, is_transpose=False)'],
    ['a = 1\n%nki_tar|get trn2', '%nki_target', '%nki_target']
  ] as [string, string | undefined, string | undefined][]) {
    test(JSON.stringify(text), () => {
      const card = at(text);
      expect([card?.text, card?.title]).toEqual([about, title]);
    });
  }

  test('a name that another cell imports', () => {
    expect(at('q.ad|d', new Map([['q', 'nki.language']]))?.title).toBe('q.add(x, y, dtype=None)');
  });
});

group('the older dialect', () => {
  const old = '%%nki\nfrom oldnki import nki\n';
  test('its own signature, and its whole name for the page', () =>
    expect(at(`${old}nl.lo|ad(x)`)).toMatchObject({
      title: 'nl.load(src, mask=None, dtype=None)',
      doc: 'A new tile.',
      topic: 'oldnki.nki.language.load'
    }));
  test('an argument', () =>
    expect(at(`${old}nl.load(x, ma|sk=m)`)).toMatchObject({
      title: 'mask=None of nl.load',
      topic: 'oldnki.nki.language.load'
    }));
  test('a word of %nki_explain', () =>
    expect(at('%nki_explain neuronxcc.nki.isa.nc_ma|tmul', undefined, CATALOG)?.title).toContain('(stationary, moving'));
});

test('an instruction: operands with memories, engines, chips, cost, limits', () => {
  expect(at('%%nki\nnisa.nc_m|atmul')?.sections).toEqual([
    { title: 'Operands', rows: [['dst', 'written, in PSUM'], ['stationary', 'read, in SBUF'], ['moving', 'read, in SBUF']] },
    { title: 'Engines', rows: [['tensor']] },
    { title: 'Chips', rows: [['from trn2 on (trn2): a matrix engine']] },
    { title: 'Modelled cost of dst: 128 x 512', rows: [['trn1', 'MATMUL: 183 ns'], ['trn2', 'MATMUL: 213 ns']] },
    { title: 'Values', rows: [['is_transpose', 'True, False']] },
    { title: 'Limits', rows: [['`moving` must not exceed 512']] },
    { title: 'Tiles of most instructions', rows: [['a tile must have at most 128 partitions']], long: true }
  ]);
});

test('an argument: its limits and values', () => {
  expect(at('%%nki\nnisa.nc_matmul(mov|ing=x)')).toMatchObject({
    doc: 'read, in SBUF.',
    sections: [{ title: 'Limits', rows: [['`moving` must not exceed 512']] }],
    topic: 'nc_matmul'
  });
});

test('what stands in a cell stays text', () => {
  const node = cardOf(at('%%nki\nfrom nki.isa import nc_matmul as m\nm|')!);
  expect(node.querySelector('.nki-card-title')?.textContent).toContain('m(dst');
  const evil = cardOf({ from: 0, to: 1, title: '<img src=x>', doc: 'a `<b>` b', sections: [{ title: '<i>', rows: [['<u>', '<s>']] }], topic: '<p>' });
  expect(evil.querySelectorAll('img, b, i, u, s')).toHaveLength(0);
  expect(evil.textContent).toContain('<img src=x>');
  expect(evil.querySelector('p code')?.textContent).toBe('<b>');
});

test('the catalog of nki_lab explains each of its names', () => {
  for (const [module, names] of Object.entries(CATALOG.data.modules)) {
    for (const name of names) {
      const card = at(`import nki, neuronxcc\n${module}.${name}|`, undefined, CATALOG);
      const kind = CATALOG.entry(`${module}.${name}`)?.kind;
      expect([module, name, card?.doc !== undefined && card.doc !== '']).toEqual([module, name, kind !== 'module']);
    }
  }
});

group('a name that is newer than the version of its kernel', () => {
  for (const [text, told] of [
    ['%%nki --nki 0.6\nnl.til|es(x)', true],
    ['%%nki --nki 0.7\nnl.til|es(x)', false],
    ['%%nki --nki 0.6\nnl.fori_lo|op(x)', false]
  ] as [string, boolean][]) {
    test(JSON.stringify(text), () => {
      const card = at(text, undefined, CATALOG)!;
      expect(card.doc.includes('This kernel is for NKI 0.6.')).toBe(told);
    });
  }
});
