/**
 * Which pieces of a cell are NKI's?  Text in, ranges out: no editor and no document.
 */

import { Catalog, ICatalog } from './catalog.js';
import { magicLines, wordsOf } from './magics.js';
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
      const aliases = aliasesOf(body, catalog, elsewhere);
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

/** What names mean in an NKI cell: its own imports, else those of others, else what is ready there. */
export function aliasesOf(cell: string, catalog: Catalog, elsewhere?: Aliases): Aliases {
  const ready = Object.entries(catalog.data.ready);
  return new Map([...ready, ...(elsewhere ?? []), ...importsOf(cell, catalog.data)]);
}

function kindOf(name: string): Kind {
  const [, module] = name.split('.');
  return module === 'isa' || module === 'language' ? module : 'api';
}
