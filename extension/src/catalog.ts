/**
 * What does nki_lab know about its own names?  Typed access to the catalog that Python writes.
 */

import json from './catalog.json';

/** What is known of one name; which fields there are depends on what it is. */
export interface IEntry {
  /** instruction, function, dtype, memory, choices, choice, limit, class, value or module. */
  kind?: string;
  /** Another name of the same thing, which has the entry. */
  see?: string;
  /** First sentence of its documentation. */
  doc?: string;
  /** The version of NKI that it is new in, where that is not the first. */
  since?: string;
  /** Parameters as they are written, defaults included. */
  call?: string[];
  /** Parameter -> what an instruction does with the tensor, and in which memories it may be. */
  operands?: Record<string, string>;
  engines?: string[];
  /** Chips that have it, where not all do, and what they have for it. */
  targets?: string[];
  needs?: string[];
  limits?: string[];
  /** Usual calls, and what the model says they cost on each chip. */
  cost?: { call: string[]; steps: Record<string, string[]> }[];
  /** What it is as a value of `op=`. */
  operator?: string[];
  /** Parameter -> the list of values it takes. */
  takes?: Record<string, string>;
  /** Chip -> numbers. */
  facts?: Record<string, string[]>;
}

export interface IOption {
  doc: string;
  /** What stands for its value; a switch has none. */
  metavar?: string;
  /** Value -> what it means, or nothing where the name says it. */
  values?: Record<string, string>;
  /** Its values are the codes of errors. */
  codes?: boolean;
  /** It takes several values, separated by commas. */
  many?: boolean;
}

export interface IMagic {
  doc: string;
  options?: string[];
  /** Lines that show how it is used. */
  uses?: string[];
  /** Words it takes. */
  words?: string[];
}

/** What nki_lab says about itself; nki_lab/magics/catalog.py explains the fields. */
export interface ICatalog {
  magics: Record<string, IMagic>;
  options: Record<string, IOption>;
  codes: Record<string, string>;
  targets: string[];
  /** A cell with a small kernel that is called. */
  example: string;
  ready: Record<string, string>;
  /** The other dialects: what `--dialect` calls them -> their package, and the names that are ready in their cells. */
  dialects: Record<string, { root: string; ready: Record<string, string> }>;
  homes: Record<string, string>;
  tiles: string[];
  modules: Record<string, string[]>;
  entries: Record<string, IEntry>;
  sets: Record<string, string[]>;
}

/** A catalog that is asked by full official names such as `nki.isa.nc_matmul`. */
export class Catalog {
  constructor(readonly data: ICatalog) {
    this._members = new Map(
      Object.entries(data.modules).map(([name, members]) => [name, new Set(members)])
    );
  }

  /** The name that has the entry of `full`: of several names of one thing, the first. */
  canonical(full: string): string {
    return get(this.data.entries, full)?.see ?? full;
  }

  entry(full: string): IEntry | undefined {
    return get(this.data.entries, this.canonical(full));
  }

  /** The names below a module or a named choice; none for anything else. */
  members(full: string): string[] {
    return get(this.data.modules, this.canonical(full)) ?? [];
  }

  has(module: string, name: string): boolean {
    return this._members.get(this.canonical(module))?.has(name) ?? false;
  }

  /** Follows names down from `full` as far as they are known; says how many were. */
  follow(full: string, names: string[]): { full: string; known: number } {
    let known = 0;
    for (const name of names) {
      if (!this.has(full, name)) {
        break;
      }
      full = `${this.canonical(full)}.${name}`;
      known += 1;
    }
    return { full, known };
  }

  /** The names that are ready in a cell of the dialect that `full` is a name of. */
  readyBeside(full: string): Record<string, string> {
    const root = full.split('.', 1)[0];
    const others = Object.values(this.data.dialects);
    return others.find(dialect => dialect.root === root)?.ready ?? this.data.ready;
  }

  /** The values a parameter takes, as kernels usually write them: `nl.add`, `True`. */
  taken(entry: IEntry, parameter: string): string[] {
    const set = entry.takes && get(entry.takes, parameter);
    return (set !== undefined && get(this.data.sets, set)) || [];
  }

  magic(name: string): IMagic | undefined {
    return get(this.data.magics, name);
  }

  option(magic: string, flag: string): IOption | undefined {
    return this.magic(magic)?.options?.includes(flag) ? get(this.data.options, flag) : undefined;
  }

  /** What can be said behind an option: value -> what it means. */
  values(magic: string, flag: string): Record<string, string> {
    const option = this.option(magic, flag);
    return (option?.codes ? this.data.codes : option?.values) ?? {};
  }

  private _members: Map<string, Set<string>>;
}

/** Reads a table by a word of the user's, which may be `constructor`. */
export function get<T>(table: Record<string, T>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

/** The catalog this extension was built with. */
export const CATALOG = new Catalog(json as unknown as ICatalog);
