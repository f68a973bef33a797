/**
 * What do a kernel and the editor tell each other?  nki_lab/magics/editor.py is the other side.
 */

/** Name of the comm, and version of what is said over it. */
export const TARGET = 'nki-lab';
export const PROTOCOL = 1;

/** Lines are counted from 1, columns in characters (not UTF-16 units) from 0; `text` is the first line. */
export interface IRange {
  line: number;
  column: number;
  endLine: number;
  endColumn: number;
  text: string;
}

/** A change that mends what is marked: `insert` stands where the range was. */
export interface IFix extends IRange {
  title: string;
  insert: string;
}

/** An error or finding at a place in a cell. */
export interface IMark extends IRange {
  code: string;
  severity: 'error' | 'warning' | 'info';
  message: string;
  notes: string[];
  help: string;
  fixes: IFix[];
}

export type ByCell = Record<string, IMark[]>;

export interface IMemory {
  memory: 'sbuf' | 'psum';
  /** Bytes per partition. */
  peak: number;
  limit: number;
}

export interface IRun {
  id: number;
  kernel: string;
  target: string;
  cores: number;
  /** Modelled time; null where the run was not timed. */
  ns: number | null;
  /** What holds it back, in a sentence and in a word. */
  bound: string;
  resource: string;
  memory: IMemory[];
  findings: ByCell;
  /** Id of the cell it ran in, and the number in its prompt. */
  cell: string;
  number: number | null;
  times: number;
  /** The variable that holds the run now, if any. */
  variable: string | null;
}

export interface IStatus {
  kind: 'status';
  version: string;
  target: string;
  targets: string[];
  backend: string;
  runs: IRun[];
}

export interface IDiagnostics {
  kind: 'diagnostics';
  origin: string;
  cells: ByCell;
}

export interface IChecked {
  kind: 'checked';
  id: number;
  origin: string;
  cells: ByCell;
  compiled: boolean;
  /** Why nothing was compiled, where nothing was. */
  unseen: string;
}

export type Message = IStatus | IDiagnostics | IChecked;
