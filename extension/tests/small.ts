/**
 * A catalog small enough to read, for tests that say what is done with one.
 */

import { ICatalog } from '../src/catalog';

export const SMALL: ICatalog = {
  magics: {
    '%%nki': { doc: 'A kernel.', options: ['--run', '--target', '--show', '--quiet', '--expect'] },
    '%nki': { doc: 'A run.', options: ['--run', '--quiet'] },
    '%nki_target': { doc: 'The chip.', uses: ['%nki_target trn2  chooses'], words: ['trn1', 'trn2'] },
    '%nki_explain': { doc: 'A page.', words: ['psum', 'nc_matmul', 'NKI203'] }
  },
  options: {
    '--run': { doc: 'call it', metavar: 'EXPR' },
    '--target': { doc: 'the chip', metavar: 'NAME', values: { trn1: '', trn2: '' } },
    '--show': { doc: 'views', metavar: 'VIEWS', values: { ir: '', memory: 'where it is' }, many: true },
    '--quiet': { doc: 'say nothing' },
    '--expect': { doc: 'an error', metavar: 'ERROR', codes: true }
  },
  codes: { NKI203: 'A rule is broken.' },
  targets: ['trn1', 'trn2'],
  example: '%%nki\ndef f(a): ...',
  ready: { nki: 'nki', nl: 'nki.language', nisa: 'nki.isa' },
  dialects: { old: { root: 'oldnki', ready: { nki: 'oldnki.nki', nl: 'oldnki.nki.language' } } },
  homes: { 'nki_lab.language': 'nki.language' },
  tiles: ['a tile must have at most 128 partitions'],
  modules: {
    nki: ['isa', 'jit', 'language'],
    'nki.isa': ['constants', 'engine', 'nc_matmul', 'tensor_tensor'],
    'nki.isa.constants': ['engine'],
    'nki.isa.engine': ['gpsimd', 'vector'],
    oldnki: ['nki'],
    'oldnki.nki': ['language'],
    'oldnki.nki.language': ['arange', 'float32', 'load'],
    'nki.language': ['add', 'float32', 'load', 'multiply', 'tile_size']
  },
  entries: {
    'nki.isa': { kind: 'module' },
    'nki.language': { kind: 'module' },
    'nki.isa.constants': { kind: 'module' },
    'nki.jit': { kind: 'function', call: ['fn=None'], doc: 'Make a kernel.' },
    'nki.isa.engine': { kind: 'choices', doc: 'Engines.' },
    'nki.isa.engine.vector': { kind: 'choice', doc: 'The engine.' },
    'nki.isa.engine.gpsimd': { kind: 'choice', doc: 'The engine.' },
    'nki.isa.constants.engine': { see: 'nki.isa.engine' },
    'nki.isa.nc_matmul': {
      kind: 'instruction',
      call: ['dst', 'stationary', 'moving', 'is_transpose=False'],
      doc: 'Multiply two tiles.',
      operands: { dst: 'written, in psum', stationary: 'read, in sbuf', moving: 'read, in sbuf' },
      engines: ['tensor'],
      limits: ['`moving` must not exceed 512'],
      cost: [{ call: ['dst: 128 x 512'], steps: { trn1: ['MATMUL: 183 ns'], trn2: ['MATMUL: 213 ns'] } }],
      targets: ['trn2'],
      needs: ['a matrix engine'],
      takes: { is_transpose: 'truth' }
    },
    'nki.isa.tensor_tensor': {
      kind: 'instruction',
      call: ['dst', 'data1', 'data2', 'op', 'engine=nisa.engine.unknown', 'name=None'],
      doc: 'Apply an operator to two tiles.',
      operands: { dst: 'written, in psum or sbuf', data1: 'read', data2: 'read' },
      engines: ['vector', 'gpsimd'],
      limits: [],
      cost: [],
      takes: { op: 'operators', engine: 'engines' }
    },
    'nki.language.add': { kind: 'function', call: ['x', 'y', 'dtype=None'], doc: 'Add two tiles.', takes: { dtype: 'dtypes' } },
    'nki.language.multiply': { kind: 'function', call: ['x', 'y', 'dtype=None'], doc: 'Multiply two tiles.' },
    'nki.language.load': { kind: 'function', call: ['src', 'dtype=None'], doc: 'Copy a tile.', takes: { dtype: 'dtypes' } },
    'nki.language.float32': { kind: 'dtype', doc: '4 bytes' },
    'oldnki.nki': { kind: 'module' },
    'oldnki.nki.language': { kind: 'module' },
    'oldnki.nki.language.arange': { kind: 'function', call: ['*args'], doc: 'An index.' },
    'oldnki.nki.language.float32': { see: 'nki.language.float32' },
    'oldnki.nki.language.load': { kind: 'function', call: ['src', 'mask=None', 'dtype=None'], doc: 'A new tile.', takes: { dtype: 'dtypes' } },
    'nki.language.tile_size': { kind: 'value', doc: 'Limits.' }
  },
  sets: {
    operators: ['nl.add', 'nl.multiply'],
    engines: ['nisa.engine.vector', 'nisa.engine.gpsimd'],
    dtypes: ['nl.float32'],
    truth: ['True', 'False']
  }
};
