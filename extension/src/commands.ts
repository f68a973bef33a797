/**
 * What can be done with a run or a kernel from a panel?  Cells that do it are put into the notebook, for all to see.
 */

import { CodeCell, ICellModel } from '@jupyterlab/cells';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { textOf } from './cells.js';
import { IRun } from './protocol.js';

/** Magics that show a run again, with the name of what they show. */
export const VIEWS: readonly (readonly [magic: string, label: string])[] = [
  ['%nki_timeline', 'Timeline'],
  ['%nki_profile', 'Report'],
  ['%nki_layout', 'Layout'],
  ['%nki_ir', 'IR']
];

/** Shows a run in a cell below the one it ran in; a cell there that says the same is run again. */
export async function showRun(panel: NotebookPanel, run: IRun, magic: string): Promise<void> {
  if (run.variable === null) {
    return;
  }
  const { content } = panel;
  const text = `${magic} ${run.variable}`;
  const ran = content.widgets.findIndex(cell => cell.model.id === run.cell);
  const index = ran < 0 ? content.activeCellIndex : ran;
  const below = content.widgets.slice(index + 1, index + 1 + VIEWS.length);
  const shown = below.findIndex(cell => textOf(cell.model).trim() === text);
  if (shown >= 0) {
    content.activeCellIndex = index + 1 + shown;
  } else {
    content.activeCellIndex = index;
    insert(panel, text, NotebookActions.insertBelow);
  }
  await runActive(panel);
}

/** Puts `%load_ext nki_lab` into a cell above all others and runs it; one that is there is run again. */
export async function loadNkiLab(panel: NotebookPanel): Promise<void> {
  const { content } = panel;
  const there = content.widgets.findIndex(
    cell => cell instanceof CodeCell && /^\s*%load_ext\s+nki_lab\s*$/m.test(textOf(cell.model))
  );
  if (there >= 0) {
    content.activeCellIndex = there;
  } else {
    content.activeCellIndex = 0;
    insert(panel, '%load_ext nki_lab', NotebookActions.insertAbove);
  }
  await runActive(panel);
}

/** Puts a code cell with a text below or above the active one. */
export function insert(panel: NotebookPanel, text: string, where: (notebook: NotebookPanel['content']) => void): void {
  where(panel.content);
  if (panel.content.activeCell?.model.type !== 'code') {
    NotebookActions.changeCellType(panel.content, 'code');
  }
  (panel.content.activeCell!.model as ICellModel).sharedModel.setSource(text);
}

/** Runs the active cell, in sight. */
export async function runActive(panel: NotebookPanel): Promise<void> {
  const { content, sessionContext } = panel;
  content.deselectAll();
  await content.scrollToCell(content.activeCell!).catch(() => undefined);
  await NotebookActions.run(content, sessionContext);
}
