/**
 * What can be written at a place of a cell?  From the catalog alone: nothing is run and no kernel is asked.
 */

import { Catalog, IEntry } from './catalog.js';
import { hasVersion, IMagicLine, magicLines, versionAt, wordsOf } from './magics.js';
import { aliasesOf } from './tokens.js';
import { Aliases, callAt, codeOf, ICall, importsOf, isOutsideCode } from './python.js';

export interface ISuggestion {
  /** What is inserted, and shown. */
  text: string;
  /** instruction, function, argument, option, ...: chooses its sign in the list. */
  kind: string;
  /** One sentence. */
  doc: string;
  /** The version of NKI that it is new in, where that is not the first. */
  since?: string;
}

export interface ISuggestions {
  /** Where the word starts that is replaced. */
  start: number;
  items: ISuggestion[];
}

const NONE: ISuggestions = { start: 0, items: [] };
const WORD_BEFORE = /(?:[\p{L}_][\p{L}\p{N}_]*\.)*(?:[\p{L}_][\p{L}\p{N}_]*)?$/u;
const MAGIC_BEFORE = /^\s*(%%?\w*)$/;

/**
 * Returns what can be written at an offset of a cell, the most fitting first.
 *
 * Args:
 *   elsewhere: what the imports of the notebook's other cells name.
 */
export function suggest(
  cell: string,
  offset: number,
  catalog: Catalog,
  elsewhere: Aliases = new Map()
): ISuggestions {
  const lines = magicLines(cell, catalog);
  const line = lines.find(({ nameEnd, to }) => nameEnd < offset && offset <= to);
  if (line) {
    return behindMagic(cell, offset, line, catalog);
  }
  const name = MAGIC_BEFORE.exec(cell.slice(cell.lastIndexOf('\n', offset - 1) + 1, offset));
  if (name) {
    const atTop = cell.slice(0, offset - name[1].length).trim() === '';
    const magics = Object.keys(catalog.data.magics).filter(
      magic => magic.startsWith(name[1]) && (atTop || !magic.startsWith('%%'))
    );
    const items = magics.map(magic => ({
      text: magic,
      kind: 'magic',
      doc: catalog.data.magics[magic].doc
    }));
    return { start: offset - name[1].length, items };
  }
  const isKernel = lines[0]?.name.startsWith('%%') ?? false;
  const top = isKernel ? lines[0].to : 0;
  const body = cell.slice(top);
  if (offset < top || isOutsideCode(body, offset - top)) {
    return NONE;
  }
  const aliases = isKernel
    ? aliasesOf(cell, lines[0], catalog, elsewhere)
    : new Map([...elsewhere, ...importsOf(body, catalog.data)]);
  const found = inCode(codeOf(body), offset - top, catalog, aliases);
  const version = versionAt(cell, offset, catalog);
  const items = found.items.filter(({ since }) => hasVersion(version, since));
  return { start: found.start + top, items };
}

function behindMagic(
  cell: string,
  offset: number,
  line: IMagicLine,
  catalog: Catalog
): ISuggestions {
  const magic = catalog.magic(line.name)!;
  const before = { ...line, to: offset };
  const words = wordsOf(cell, before, catalog);
  let last = words.at(-1);
  // A blank before the cursor starts a new word, which may be the value of the option before it.
  if (!last || last.to < offset) {
    const awaits = last?.flag === undefined && catalog.option(line.name, last?.text ?? '')?.metavar;
    last = { from: offset, to: offset, text: '', flag: awaits ? last!.text : undefined };
  }
  const start = last.from;
  const typed = last.text;
  if (last.flag !== undefined) {
    const given = words.filter(word => word.flag === last.flag && word.from < start);
    const values = Object.entries(catalog.values(line.name, last.flag));
    const items = values
      .filter(([value]) => value.startsWith(typed) && !given.some(word => word.text === value))
      .map(([value, meaning]) => ({ text: value, kind: 'value', doc: meaning }));
    return { start, items };
  }
  if (magic.options) {
    const given = wordsOf(cell, line, catalog).filter(word => word.from !== start);
    const items = magic.options
      .filter(flag => flag.startsWith(typed) && !given.some(word => word.text === flag))
      .map(flag => ({ text: flag, kind: 'option', doc: catalog.option(line.name, flag)!.doc }));
    return { start, items };
  }
  const wanted = (magic.words ?? []).filter(word => word.startsWith(typed));
  return { start, items: wanted.map(word => ({ text: word, kind: 'value', doc: catalog.data.codes[word] ?? '' })) };
}

function inCode(code: string, offset: number, catalog: Catalog, aliases: Aliases): ISuggestions {
  const word = WORD_BEFORE.exec(code.slice(0, offset))![0];
  const dot = word.lastIndexOf('.') + 1;
  const from = offset - word.length;
  if (/[.)\]"'\p{L}\p{N}_]$/u.test(code.slice(0, from))) {
    return NONE; // part of an expression: an attribute of something, a number
  }
  const call = callAt(code, offset);
  const called = call && calledEntry(call.callee, catalog, aliases);
  const entry = called?.entry;
  const values = call && called ? valuesAt(call, called, code, from, catalog, aliases) : [];
  if (dot > 0) {
    const base = word.slice(0, dot - 1).split('.');
    const first = aliases.get(base[0]);
    const followed = first ? catalog.follow(first, base.slice(1)) : undefined;
    if (!followed || followed.known < base.length - 1) {
      return NONE;
    }
    const typed = word.slice(dot);
    const members = catalog.members(followed.full).filter(name => name.startsWith(typed));
    const fitting = values
      .filter(value => value.text.startsWith(word))
      .map(value => value.text.slice(dot))
      .filter(name => members.includes(name));
    // JupyterLab sorts what matches a typed letter: the others would come between those that fit.
    const others = typed && fitting.length ? [] : members.filter(name => !fitting.includes(name));
    const items = [...fitting, ...others].map(name =>
      suggestionOf(name, catalog.entry(`${catalog.canonical(followed.full)}.${name}`))
    );
    return { start: offset - typed.length, items };
  }
  const keywords = call && entry && isWholeArgument(code, call, from) ? keywordsOf(call, entry) : [];
  const names: ISuggestion[] = [];
  for (const [alias, full] of aliases) {
    if (full && word) {
      names.push(suggestionOf(alias, catalog.entry(full)));
    }
  }
  const short = (text: string) => text.slice(text.lastIndexOf('.') + 1);
  return {
    start: from,
    items: [
      ...keywords.filter(({ text }) => text.startsWith(word)),
      ...values.filter(({ text }) => text.startsWith(word) || short(text).startsWith(word)),
      ...names.filter(({ text }) => text.startsWith(word))
    ]
  };
}

/** What is called: its full name, and what is known of it. */
export interface ICalled {
  full: string;
  entry: IEntry;
}

/** Returns what is known of a callee as it is written. */
export function calledEntry(
  callee: string,
  catalog: Catalog,
  aliases: Aliases
): ICalled | undefined {
  const [first, ...names] = callee.split('.');
  const start = aliases.get(first);
  if (!start) {
    return undefined;
  }
  const { full, known } = catalog.follow(start, names);
  const entry = known === names.length ? catalog.entry(full) : undefined;
  return entry?.call ? { full, entry } : undefined;
}

/** Name of a parameter as `call` lists it: without default and stars. */
export function parameterName(parameter: string): string {
  return parameter.split('=', 1)[0].replace(/^\*+/, '');
}

function isWholeArgument(code: string, call: ICall, from: number): boolean {
  return call.keyword === undefined && code.slice(call.start, from).trim() === '';
}

function keywordsOf(call: ICall, entry: IEntry): ISuggestion[] {
  return entry
    .call!.slice(call.position)
    .filter(parameter => !parameter.startsWith('*'))
    .map(parameter => parameterName(parameter))
    .filter(name => !call.used.includes(name))
    .map(name => ({ text: `${name}=`, kind: 'argument', doc: entry.operands?.[name] ?? defaultOf(entry, name) }));
}

function defaultOf(entry: IEntry, name: string): string {
  const written = entry.call!.find(parameter => parameterName(parameter) === name) ?? '';
  return written.includes('=') ? `default ${written.slice(written.indexOf('=') + 1)}` : '';
}

/** Returns the values of the argument the cursor is in, by the names this notebook gives them. */
function valuesAt(
  call: ICall,
  { full: callee, entry }: ICalled,
  code: string,
  from: number,
  catalog: Catalog,
  aliases: Aliases
): ISuggestion[] {
  if (code.slice(call.start, from).trim() !== '') {
    return [];
  }
  const parameter = call.keyword ?? parameterName(entry.call![call.position] ?? '');
  return catalog.taken(entry, parameter).map(value => {
    const [ready, ...names] = value.split('.');
    const module = catalog.readyBeside(callee)[ready];
    if (!module || names.length === 0) {
      return { text: value, kind: 'value', doc: '' };
    }
    const full = `${module}.${names.join('.')}`;
    return suggestionOf(`${aliasOf(module, ready, aliases)}.${names.join('.')}`, catalog.entry(full));
  });
}

/** Returns how this notebook writes a module: the usual name if it has it, else the shortest it has. */
function aliasOf(module: string, usual: string, aliases: Aliases): string {
  if (aliases.get(usual) === module) {
    return usual;
  }
  const written = [...aliases].filter(([, full]) => full === module).map(([alias]) => alias);
  const shortest = written.sort((a, b) => a.length - b.length)[0];
  return shortest ?? (aliases.get('nki') === 'nki' ? module : usual);
}

function suggestionOf(text: string, entry: IEntry | undefined): ISuggestion {
  return { text, kind: entry?.kind ?? 'value', doc: entry?.doc ?? '', since: entry?.since };
}
