/**
 * What do the imports of a notebook name?  An editor knows only its cell; the shared model knows the others.
 */

import { CodeEditor } from '@jupyterlab/codeeditor';
import { CATALOG } from './catalog.js';
import { Aliases, importsOf } from './python.js';

/** What is asked of a cell of a shared notebook. */
interface ICell {
  readonly cell_type?: string;
  getSource(): string;
  readonly notebook?: INotebook | null;
}

export interface INotebook {
  readonly cells: readonly ICell[];
}

type Listener = (notebook: INotebook) => void;

const read = new WeakMap<ICell, { source: string; names: Map<string, string> }>();
const known = new WeakMap<INotebook, string>();
const listeners = new Set<Listener>();

/** Calls `listener` when imports of a notebook have changed; returns how to end that. */
export function onImportsChanged(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Returns the notebook that the text of an editor belongs to, if it is a cell. */
export function notebookOf(model: CodeEditor.IModel): INotebook | undefined {
  return (model.sharedModel as unknown as ICell).notebook ?? undefined;
}

/** Returns what the imports of all code cells name, later cells winning; nothing for a file. */
export function importsAround(model: CodeEditor.IModel): Aliases {
  const names = new Map<string, string>();
  const notebook = notebookOf(model);
  for (const cell of notebook?.cells ?? []) {
    if (cell.cell_type === 'code') {
      importsIn(cell).forEach((full, alias) => names.set(alias, full));
    }
  }
  if (notebook) {
    tell(notebook, JSON.stringify([...names]));
  }
  return names;
}

function tell(notebook: INotebook, names: string): void {
  const before = known.get(notebook);
  known.set(notebook, names);
  if (before !== undefined && before !== names) {
    // An editor may not be changed while another one is being updated.
    queueMicrotask(() => [...listeners].forEach(listener => listener(notebook)));
  }
}

function importsIn(cell: ICell): Map<string, string> {
  const source = cell.getSource();
  let found = read.get(cell);
  if (found?.source !== source) {
    found = { source, names: importsOf(source, CATALOG.data) };
    read.set(cell, found);
  }
  return found.names;
}
