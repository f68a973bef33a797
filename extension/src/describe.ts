/**
 * What stands at a place of a cell, and what is known about it?  Text in, plain data out: no editor, no kernel.
 */

import { Catalog, IEntry } from './catalog.js';
import { hasVersion, magicLines, versionAt, wordsOf } from './magics.js';
import { Aliases, callAt, CHAIN, codeOf, importsOf } from './python.js';
import { calledEntry, ICalled, parameterName } from './suggest.js';
import { aliasesOf } from './tokens.js';

/** A part of a card: a heading and rows of it. */
export interface ISection {
  title: string;
  /** Rows of one cell are a list, rows of more a table. */
  rows: string[][];
  /** It is long, and closed until it is asked for. */
  long?: boolean;
}

/** What is known about a name, an argument, an option or a magic. */
export interface ICard {
  /** The part of the cell it is about. */
  from: number;
  to: number;
  /** How it is written: a call with its parameters, an option with its placeholder. */
  title: string;
  doc: string;
  /** The version of NKI that it is new in, where that is not the first. */
  since?: string;
  sections: ISection[];
  /** What `%nki_explain` is asked for the whole page. */
  topic: string;
}

/**
 * Returns what is known about the word at an offset of a cell.
 *
 * Args:
 *   elsewhere: what the imports of the notebook's other cells name.
 */
export function describe(
  cell: string,
  offset: number,
  catalog: Catalog,
  elsewhere: Aliases = new Map()
): ICard | undefined {
  const lines = magicLines(cell, catalog);
  const line = lines.find(({ from, to }) => from <= offset && offset <= to);
  if (line) {
    if (offset <= line.nameEnd) {
      return magicCard(line.name, line.from, line.nameEnd, catalog);
    }
    const word = wordsOf(cell, line, catalog).find(({ from, to }) => from <= offset && offset <= to);
    return word && wordCard(word, line.name, catalog);
  }
  const isKernel = lines[0]?.name.startsWith('%%') ?? false;
  const top = isKernel ? lines[0].to : 0;
  if (offset < top) {
    return undefined;
  }
  const body = cell.slice(top);
  const aliases = isKernel
    ? aliasesOf(cell, lines[0], catalog, elsewhere)
    : new Map([...elsewhere, ...importsOf(body, catalog.data)]);
  const card = inCode(codeOf(body), offset - top, catalog, aliases);
  if (!card) {
    return undefined;
  }
  const { since, ...shown } = card;
  const version = versionAt(cell, offset, catalog);
  const doc = hasVersion(version, since) ? card.doc : `${card.doc} This kernel is for NKI ${version}.`;
  return { ...shown, doc, from: card.from + top, to: card.to + top };
}

function magicCard(name: string, from: number, to: number, catalog: Catalog): ICard {
  const { doc, options, uses } = catalog.magic(name)!;
  const rows = (options ?? []).map(flag => [flag, catalog.option(name, flag)!.doc]);
  const sections: ISection[] = [];
  if (uses?.length) {
    sections.push({ title: 'Uses', rows: uses.map(use => [use]) });
  }
  if (rows.length) {
    sections.push({ title: 'Options', rows, long: true });
  }
  return { from, to, title: name, doc, sections, topic: name };
}

function wordCard(
  { from, to, text, flag }: { from: number; to: number; text: string; flag?: string },
  magic: string,
  catalog: Catalog
): ICard | undefined {
  const code = Object.hasOwn(catalog.data.codes, text) ? catalog.data.codes[text] : undefined;
  if (code !== undefined) {
    return { from, to, title: text, doc: code, sections: [], topic: text };
  }
  const option = catalog.option(magic, flag ?? text);
  if (!option) {
    return catalog.magic(magic)?.words?.includes(text) ? topicCard(text, from, to, catalog) : undefined;
  }
  const values = catalog.values(magic, flag ?? text);
  if (flag !== undefined && !Object.hasOwn(values, text)) {
    return undefined; // an expression of the user's
  }
  const name = flag ?? text;
  const meant = Object.entries(values).filter(([, meaning]) => meaning);
  const rows = meant.length || !Object.keys(values).length ? meant : [[Object.keys(values).join(', ')]];
  const sections = rows.length ? [{ title: 'Values', rows, long: rows.length > 20 }] : [];
  return { from, to, title: `${name} ${option.metavar ?? ''}`.trim(), doc: option.doc, sections, topic: name };
}

/** What `%nki_explain nc_matmul` is about, as far as the catalog knows it. */
function topicCard(word: string, from: number, to: number, catalog: Catalog): ICard | undefined {
  if (catalog.entry(word)) {
    return entryCard(word, word, from, to, catalog);
  }
  for (const module of ['nki.isa', 'nki.language', 'nki.collectives', 'nki']) {
    if (catalog.has(module, word)) {
      return entryCard(`${module}.${word}`, word, from, to, catalog);
    }
  }
  return undefined;
}

function inCode(code: string, offset: number, catalog: Catalog, aliases: Aliases): ICard | undefined {
  for (const { 0: chain, index } of code.matchAll(CHAIN)) {
    if (index > offset) {
      return undefined;
    }
    if (offset > index + chain.length) {
      continue;
    }
    const names = chain.split('.');
    // Of `nl.tile_size.pmax`, the names up to the one that is pointed at.
    let end = index;
    let count = 0;
    while (count < names.length && (count === 0 || end < offset)) {
      end += (count ? 1 : 0) + names[count].length;
      count += 1;
    }
    const written = names.slice(0, count).join('.');
    const start = aliases.get(names[0]);
    const keyword = names.length === 1 && /^\s*=(?!=)/.test(code.slice(index + chain.length));
    if (keyword) {
      const call = callAt(code, index);
      const called = call && calledEntry(call.callee, catalog, aliases);
      return called && parameterCard(chain, called, call.callee, index, end, catalog);
    }
    if (!start) {
      return undefined;
    }
    const { full, known } = catalog.follow(start, names.slice(1, count));
    return known === count - 1 ? entryCard(full, written, index, end, catalog) : undefined;
  }
  return undefined;
}

function parameterCard(
  name: string,
  { full, entry }: ICalled,
  callee: string,
  from: number,
  to: number,
  catalog: Catalog
): ICard | undefined {
  const written = entry.call!.find(parameter => parameterName(parameter) === name);
  if (written === undefined) {
    return undefined;
  }
  const sections: ISection[] = [];
  const values = catalog.taken(entry, name);
  if (values.length) {
    sections.push({ title: 'Takes', rows: [[values.join(', ')]] });
  }
  const limits = (entry.limits ?? []).filter(limit => limit.includes(`\`${name}\``));
  if (limits.length) {
    sections.push({ title: 'Limits', rows: limits.map(limit => [limit]) });
  }
  const operand = entry.operands?.[name];
  const doc = operand ? `${memories(operand)}.` : '';
  const topic = topicOf(full, catalog);
  return { from, to, title: `${written} of ${callee}`, doc, sections, topic };
}

function entryCard(
  full: string,
  written: string,
  from: number,
  to: number,
  catalog: Catalog
): ICard | undefined {
  const entry = catalog.entry(full);
  if (!entry || entry.kind === 'module') {
    return undefined;
  }
  const title = entry.call ? `${written}(${entry.call.join(', ')})` : written;
  const topic = topicOf(full, catalog);
  const sections = sectionsOf(entry, full, catalog);
  return { from, to, title, doc: entry.doc ?? '', since: entry.since, sections, topic };
}

/** Names of the older dialect are asked for as a whole: most of them are names of today's, too. */
function topicOf(full: string, catalog: Catalog): string {
  return catalog.canonical(full).replace(/^nki\.(isa|language)\./, '');
}

function sectionsOf(entry: IEntry, full: string, catalog: Catalog): ISection[] {
  const sections: ISection[] = [];
  const add = (title: string, rows: string[][], long = false) =>
    rows.length && sections.push(long ? { title, rows, long } : { title, rows });
  add('As an operator', (entry.operator ?? []).map(text => [text]));
  add(
    'Operands',
    Object.entries(entry.operands ?? {}).map(([name, text]) => [name, memories(text)])
  );
  add('Engines', entry.engines?.length ? [[entry.engines.join(', ')]] : []);
  if (entry.kind === 'instruction' || entry.targets) {
    const targets = entry.targets ?? catalog.data.targets;
    const needs = entry.needs?.length ? `: ${entry.needs.join('; ')}` : '';
    const since = targets.length && !entry.targets ? 'every chip, from ' : 'from ';
    add('Chips', [[`${since}${targets[0]} on (${targets.join(', ')})${needs}`]]);
  }
  add('Members', catalog.members(full).length ? [[catalog.members(full).join(', ')]] : []);
  add(
    'On each chip',
    Object.entries(entry.facts ?? {}).map(([chip, facts]) => [chip, facts.join('; ')])
  );
  for (const { call, steps } of entry.cost ?? []) {
    const rows = Object.entries(steps).map(([chip, lines]) => [chip, lines.join('; ')]);
    add(`Modelled cost of ${call.join('; ')}`, rows);
  }
  const taken = Object.keys(entry.takes ?? {}).map(name => [name, catalog.taken(entry, name).join(', ')]);
  add('Values', taken, taken.some(([, values]) => values.length > 200));
  add('Limits', (entry.limits ?? []).map(text => [text]), (entry.limits?.length ?? 0) > 8);
  add(
    'Tiles of most instructions',
    entry.kind === 'instruction' ? catalog.data.tiles.map(text => [text]) : [],
    true
  );
  return sections;
}

/** Memories are written as people write them. */
function memories(text: string): string {
  return text.replace(/\b(sbuf|psum|(?:shared_|private_)?hbm)\b/g, name => name.toUpperCase());
}
