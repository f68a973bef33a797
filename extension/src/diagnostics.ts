/**
 * When are errors and findings marked in cells, checked without running, and mended?
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ICellModel } from '@jupyterlab/cells';
import { EditorExtensionRegistry, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';
import { closeLintPanel, openLintPanel } from '@codemirror/lint';
import { EditorView } from '@codemirror/view';
import { cellOf, goTo, isKernelCell, textOf, viewOf } from './cells.js';
import { locate } from './positions.js';
import { Session } from './session.js';
import { INkiSessions } from './sessions.js';
import { INkiSettings } from './settings.js';
import { apply, Drop, show, shown, squiggles } from './squiggles.js';

export const CHECK_CELL = 'nki-lab:check-cell';
export const CHECK_NOTEBOOK = 'nki-lab:check-notebook';
export const FIX = 'nki-lab:fix';
export const NEXT = 'nki-lab:next-mark';
const CLOSE = 'nki-lab:close-list';

const IN_NOTEBOOK = '.jp-Notebook';

/** The editors of code cells, by the model of the cell: ids of cells are not unique among notebooks. */
class Views {
  constructor(private _sessions: INkiSessions) {}

  add(view: EditorView, model: ICellModel): () => void {
    this._models.set(view, model);
    // The cell is not in its notebook yet, and an editor that is being made cannot be changed.
    setTimeout(() => this._models.has(view) && this.show(view));
    return () => this._models.delete(view);
  }

  show(view: EditorView): void {
    const model = this._models.get(view)!;
    const marks = this._sessionOf(model)?.marks.of(model.id) ?? [];
    if (marks.length || shown(view).length) {
      show(view, marks, this.drop);
    }
  }

  showCells(session: Session, cells: Set<string>): void {
    for (const [view, model] of this._models) {
      if (cells.has(model.id) && this._sessionOf(model) === session) {
        this.show(view);
      }
    }
  }

  readonly drop: Drop = (view, mark) => {
    const model = this._models.get(view);
    if (model) {
      this._sessionOf(model)?.drop(model.id, mark);
    }
  };

  private _sessionOf(model: ICellModel): Session | undefined {
    return this._sessions.all.find(session => cellOf(session.panel, model.id)?.model === model);
  }

  private _models = new Map<EditorView, ICellModel>();
}

/** Checks cells one after the other; returns how many were compiled, and why others were not. */
async function check(session: Session, cells: ICellModel[]): Promise<void> {
  const said: string[] = [];
  let compiled = 0;
  for (const cell of cells) {
    const answer = await session.check(cell.id, textOf(cell));
    if (!answer) {
      break;
    }
    compiled += Number(answer.compiled);
    if (answer.unseen) {
      said.push(answer.unseen);
    }
  }
  session.tellChecked({ cells: cells.length, compiled, unseen: [...new Set(said)] });
}

function kernelCells(session: Session): ICellModel[] {
  const cells = session.panel.content.widgets.map(cell => cell.model);
  return cells.filter(cell => cell.type === 'code' && isKernelCell(textOf(cell)));
}

function tell(session: Session, cells: ICellModel[]): void {
  const marks = cells.flatMap(cell => session.marks.of(cell.id));
  const errors = marks.filter(mark => mark.severity === 'error').length;
  const { compiled } = session.checked!;
  const text =
    `${count(errors, 'error')} and ${count(marks.length - errors, 'finding')} in ${count(cells.length, 'cell')};` +
    ` ${compiled ? `${compiled} compiled` : 'the text was read, nothing was compiled'}`;
  Notification.emit(text, errors ? 'warning' : 'success', { autoClose: 4000 });
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

function activate(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  editors: IEditorExtensionRegistry,
  sessions: INkiSessions,
  settings: INkiSettings,
  palette: ICommandPalette | null
): void {
  const views = new Views(sessions);
  editors.addExtension({
    name: 'nki-lab:diagnostics',
    factory: ({ model }) => {
      const cell = model as ICellModel;
      if (cell.type !== 'code' || !cell.id) {
        return null;
      }
      const parts = squiggles(view => views.add(view, cell), views.drop);
      return EditorExtensionRegistry.createImmutableExtension(parts);
    }
  });

  const follow = (session: Session) => {
    session.marked.connect((_, cells) => views.showCells(session, cells));
    session.panel.context.saveState.connect((_, state) => {
      const idle = session.panel.sessionContext.session?.kernel?.status === 'idle';
      if (state === 'completed' && settings.chosen.checkOnSave && session.state === 'loaded' && idle) {
        void check(session, kernelCells(session));
      }
    });
  };
  sessions.all.forEach(follow);
  sessions.added.connect((_, session) => follow(session));

  const checked = async (cells: (session: Session) => ICellModel[]) => {
    const session = sessions.current;
    if (!session) {
      return;
    }
    if (session.state !== 'loaded') {
      Notification.warning('nki_lab is not loaded in the kernel of this notebook: run %load_ext nki_lab', {
        autoClose: 4000
      });
      return;
    }
    const found = cells(session);
    await check(session, found);
    tell(session, found);
  };
  // The editor below which marks are listed.
  let listed: EditorView | undefined;
  const activeView = () => viewOf(tracker.activeCell ?? undefined);
  const { commands } = app;
  commands.addCommand(CHECK_CELL, {
    label: 'NKI: Check This Cell Without Running It',
    isEnabled: () => tracker.activeCell?.model.type === 'code',
    execute: () => checked(() => [tracker.activeCell!.model])
  });
  commands.addCommand(CHECK_NOTEBOOK, {
    label: 'NKI: Check All Cells Without Running Them',
    isEnabled: () => tracker.currentWidget !== null,
    execute: () => checked(kernelCells)
  });
  commands.addCommand(FIX, {
    label: 'NKI: Apply the Fix at the Cursor',
    isEnabled: () => activeView() !== undefined,
    execute: () => {
      const view = activeView();
      if (!view) {
        return;
      }
      const { head } = view.state.selection.main;
      const line = view.state.doc.lineAt(head);
      const fixable = shown(view).filter(({ mark }) => mark.fixes.length);
      const found =
        fixable.find(({ from, to }) => from <= head && head <= to) ??
        fixable.find(({ from, to }) => from <= line.to && to >= line.from) ??
        (fixable.length === 1 ? fixable[0] : undefined);
      if (found) {
        apply(view, found.mark.fixes[0], found.mark, views.drop);
      }
    }
  });
  commands.addCommand(NEXT, {
    label: 'NKI: Next Error or Finding',
    isEnabled: () => tracker.currentWidget !== null,
    execute: async () => {
      const session = sessions.current;
      if (!session) {
        return;
      }
      const all = session.listed();
      const view = activeView();
      const line = view ? view.state.doc.lineAt(view.state.selection.main.head).number : 0;
      const here = session.panel.content.activeCellIndex;
      const next = all.find(({ index, mark }) => index > here || (index === here && mark.line > line)) ?? all[0];
      if (next) {
        await goTo(session.panel, next.id, doc => locate(doc, next.mark));
        const view = activeView();
        if (listed && listed !== view) {
          closeLintPanel(listed);
        }
        if (view) {
          openLintPanel(view);
        }
        listed = view;
      }
    }
  });
  commands.addCommand(CLOSE, {
    label: 'NKI: Close the List of Errors and Findings',
    execute: () => {
      const view = activeView();
      if (view) {
        closeLintPanel(view);
        view.focus();
      }
    }
  });
  // The editor is closer to what has the focus than the notebook, whose key would leave it.
  if (CSS.supports('selector(:has(*))')) {
    const selector = '.jp-Notebook .cm-editor:has(.cm-panel-lint)';
    commands.addKeyBinding({ command: CLOSE, keys: ['Escape'], selector });
  }
  commands.addKeyBinding({ command: FIX, keys: ['Accel .'], selector: IN_NOTEBOOK });
  commands.addKeyBinding({ command: NEXT, keys: ['Alt F8'], selector: IN_NOTEBOOK });
  for (const command of [CHECK_CELL, CHECK_NOTEBOOK, FIX, NEXT]) {
    palette?.addItem({ command, category: 'NKI' });
  }
}

export const diagnostics: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:diagnostics',
  description: 'Marks errors and findings in cells, checks cells without running them, and applies fixes.',
  autoStart: true,
  requires: [INotebookTracker, IEditorExtensionRegistry, INkiSessions, INkiSettings],
  optional: [ICommandPalette],
  activate
};
