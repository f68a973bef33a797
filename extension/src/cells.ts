/**
 * Which cells does a notebook have, and how does one get to a line of one?
 */

import { Cell, ICellModel } from '@jupyterlab/cells';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { NotebookPanel } from '@jupyterlab/notebook';
import { EditorView } from '@codemirror/view';

/** Tells whether the text of a cell is one that nki_lab runs. */
export function isKernelCell(text: string): boolean {
  return /^\s*%%nki(?!\S)/.test(text);
}

export function cellOf(panel: NotebookPanel, id: string): Cell | undefined {
  return panel.content.widgets.find(cell => cell.model.id === id);
}

export function textOf(model: ICellModel): string {
  return model.sharedModel.getSource();
}

/** Returns the name a person knows a cell by: the number of its prompt, or its place. */
export function nameOf(panel: NotebookPanel, id: string): string {
  const index = panel.content.widgets.findIndex(cell => cell.model.id === id);
  if (index < 0) {
    return 'a deleted cell';
  }
  const { model } = panel.content.widgets[index];
  const count = (model as ICellModel & { executionCount?: number | null }).executionCount;
  return count ? `cell [${count}]` : `cell ${index + 1} from the top`;
}

/** Returns the editor of a cell; undefined while it is not drawn. */
export function viewOf(cell: Cell | undefined): EditorView | undefined {
  const editor = cell?.editor;
  return editor instanceof CodeMirrorEditor ? editor.editor : undefined;
}

/** Makes a cell the active one, brings it into sight, and selects a range of its text. */
export async function goTo(
  panel: NotebookPanel,
  id: string,
  range: (doc: string) => { from: number; to: number } | null
): Promise<void> {
  const cell = cellOf(panel, id);
  if (!cell) {
    return;
  }
  const { content } = panel;
  content.activeCellIndex = content.widgets.indexOf(cell);
  await content.scrollToCell(cell).catch(() => undefined);
  await cell.ready;
  const view = viewOf(cell);
  if (!view) {
    return;
  }
  content.mode = 'edit';
  const found = range(view.state.doc.toString());
  if (found) {
    view.dispatch({ selection: { anchor: found.from, head: found.to }, scrollIntoView: true });
  }
  view.focus();
}
