/**
 * Which pieces of a `%%nki` cell are NKI's?  Text in, ranges out: no editor and no document.
 */

/** What nki_lab says about itself; generated from it by tests/extension/test_catalog.py. */
export interface ICatalog {
  /** Cell magic -> option -> the values it can list. */
  magics: Record<string, Record<string, string[]>>;
  /** Name a cell may use without importing it -> module. */
  ready: Record<string, string>;
  /** Module -> its public names. */
  modules: Record<string, string[]>;
}

/** `isa` and `language` are names of those modules, `api` those of the other modules of nki. */
export type Kind = 'magic' | 'option' | 'value' | 'isa' | 'language' | 'api';

export interface IToken {
  from: number;
  to: number;
  kind: Kind;
}

/** Returns the tokens of a cell in order; none if the cell does not start with a known magic. */
export type Tokenizer = (cell: string) => IToken[];

// IPython drops blank lines and indentation above a cell magic.
const MAGIC = /^\s*(%%\w+)(?!\S)([^\n]*)/;

// A word as a shell sees it; a quote that is still open runs to the end of the line.
const WORD = /(?:'[^']*(?:'|$)|"(?:\\.|[^"\\])*(?:"|$)|\\.|[^\s'"\\])+/g;

// Comments and strings are matched in order to pass over them.
const PYTHON = new RegExp(
  [
    String.raw`#[^\n]*`,
    String.raw`("""|''')(?:\\[^]|(?!\1)[^])*(?:\1|$)`,
    String.raw`"(?:\\[^]|[^"\\\n])*"?`,
    String.raw`'(?:\\[^]|[^'\\\n])*'?`,
    String.raw`(?<![\p{L}\p{N}_.])(?<chain>[\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*)+)`
  ].join('|'),
  'gu'
);

export function tokenizer(catalog: ICatalog): Tokenizer {
  const magics = new Map(
    Object.entries(catalog.magics).map(([magic, options]) => [
      magic,
      new Map(Object.entries(options).map(([flag, values]) => [flag, new Set(values)]))
    ])
  );
  const ready = new Map(Object.entries(catalog.ready));
  const modules = new Map(
    Object.entries(catalog.modules).map(([module, names]) => [module, new Set(names)])
  );

  function* optionsIn(line: string, start: number, options: Map<string, Set<string>>) {
    let values: Set<string> | undefined;
    for (const { 0: word, index } of line.matchAll(WORD)) {
      const [flag] = word.split('=', 1);
      let at = start + index;
      let rest = word;
      if (options.has(flag)) {
        yield { from: at, to: at + flag.length, kind: 'option' } as const;
        values = options.get(flag);
        at += flag.length + 1;
        rest = word.slice(flag.length + 1);
        if (!word.includes('=')) {
          continue;
        }
      }
      for (const value of rest.split(',')) {
        if (values?.has(value)) {
          yield { from: at, to: at + value.length, kind: 'value' } as const;
        }
        at += value.length + 1;
      }
      values = undefined;
    }
  }

  /** Follows a dotted name through the modules as far as it is known. */
  function nameIn(chain: string, from: number): IToken | undefined {
    const [first, ...names] = chain.split('.');
    let module = ready.get(first);
    let to = from + first.length;
    let known = false;
    for (const name of names) {
      if (module === undefined || !modules.get(module)?.has(name)) {
        break;
      }
      known = true;
      to += 1 + name.length;
      if (!modules.has(`${module}.${name}`)) {
        break;
      }
      module = `${module}.${name}`;
    }
    return known ? { from, to, kind: kindOf(module!) } : undefined;
  }

  return cell => {
    const start = MAGIC.exec(cell);
    const options = start && magics.get(start[1]);
    if (!options) {
      return [];
    }
    const [head, magic, line] = start;
    const end = head.length - line.length;
    const tokens: IToken[] = [{ from: end - magic.length, to: end, kind: 'magic' }];
    tokens.push(...optionsIn(line, end, options));
    for (const { groups, index } of cell.slice(head.length).matchAll(PYTHON)) {
      const token = groups?.chain && nameIn(groups.chain, head.length + index);
      if (token) {
        tokens.push(token);
      }
    }
    return tokens;
  };
}

function kindOf(module: string): Kind {
  switch (module) {
    case 'nki.isa':
      return 'isa';
    case 'nki.language':
      return 'language';
    default:
      return 'api';
  }
}
