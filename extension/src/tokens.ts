/**
 * Which pieces of a cell are NKI's?  Text in, ranges out: no editor and no document.
 */

import { Catalog, get, ICatalog } from './catalog.js';
import { IMagicLine, magicLines, wordsOf } from './magics.js';
import { Aliases, CHAIN, codeOf, importsOf } from './python.js';

/** `isa` and `language` are names of those modules, `api` those of the other modules of nki. */
export type Kind = 'magic' | 'option' | 'value' | 'isa' | 'language' | 'api';

export interface IToken {
  from: number;
  to: number;
  kind: Kind;
}

/**
 * Returns the tokens of a cell in order: of its magics, and, below a cell magic, NKI's names.
 *
 * Args:
 *   elsewhere: what the imports of other cells name.
 */
export type Tokenizer = (cell: string, elsewhere?: Aliases) => IToken[];

export function tokenizer(data: ICatalog | Catalog): Tokenizer {
  const catalog = data instanceof Catalog ? data : new Catalog(data);

  /** Follows a dotted name through the modules as far as it is known. */
  function nameIn(chain: string, from: number, aliases: Aliases): IToken | undefined {
    const [first, ...names] = chain.split('.');
    const start = aliases.get(first);
    if (!start) {
      return undefined;
    }
    const { full, known } = catalog.follow(start, names);
    // A module alone is a name like any other; what is imported from one is NKI's.
    if (known === 0 && (start in catalog.data.modules || !start.includes('.'))) {
      return undefined;
    }
    const to = from + [first, ...names.slice(0, known)].join('.').length;
    return { from, to, kind: kindOf(full) };
  }

  return (cell, elsewhere) => {
    const tokens: IToken[] = [];
    const lines = magicLines(cell, catalog);
    for (const line of lines) {
      tokens.push({ from: line.from, to: line.nameEnd, kind: 'magic' });
      const magic = catalog.magic(line.name);
      for (const { from, to, text, flag } of wordsOf(cell, line, catalog)) {
        if (flag !== undefined) {
          if (Object.hasOwn(catalog.values(line.name, flag), text)) {
            tokens.push({ from, to, kind: 'value' });
          }
        } else if (magic?.options?.includes(text)) {
          tokens.push({ from, to, kind: 'option' });
        } else if (magic?.words?.includes(text)) {
          tokens.push({ from, to, kind: 'value' });
        }
      }
    }
    if (lines[0]?.name.startsWith('%%')) {
      const below = lines[0].to;
      const body = cell.slice(below);
      const aliases = aliasesOf(cell, lines[0], catalog, elsewhere);
      for (const { 0: chain, index } of codeOf(body).matchAll(CHAIN)) {
        const token = nameIn(chain, below + index, aliases);
        if (token) {
          tokens.push(token);
        }
      }
    }
    return tokens;
  };
}

/**
 * What names mean in an NKI cell: its own imports, else those of others, else what is ready there.
 *
 * A cell that says its dialect, by its imports or by an option, has the ready names of this one where others import
 * those of another.
 */
export function aliasesOf(
  cell: string,
  line: IMagicLine,
  catalog: Catalog,
  elsewhere: Aliases = new Map()
): Aliases {
  const own = importsOf(cell.slice(line.to), catalog.data);
  const said = readyNames(cell, line, catalog, own);
  const others = [...elsewhere].filter(
    ([alias, full]) => !said || !full || !(alias in said) || catalog.readyBeside(full) === said
  );
  return new Map([...Object.entries(said ?? catalog.data.ready), ...others, ...own]);
}

function readyNames(
  cell: string,
  line: IMagicLine,
  catalog: Catalog,
  own: Aliases
): Record<string, string> | undefined {
  for (const full of own.values()) {
    if (full) {
      return catalog.readyBeside(full);
    }
  }
  for (const { flag, text } of wordsOf(cell, line, catalog)) {
    const dialect = flag === '--dialect' || flag === '--nki' ? get(catalog.data.dialects, text) : undefined;
    if (dialect) {
      return dialect.ready;
    }
  }
  return undefined;
}

function kindOf(name: string): Kind {
  const module = /(?:^|\.)nki\.(isa|language)(?!\w)/.exec(name)?.[1];
  return (module as Kind | undefined) ?? 'api';
}
