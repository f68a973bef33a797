/**
 * How does one ask what a word means?  By pointing at it, or by a command for the word under the cursor.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { CodeEditor } from '@jupyterlab/codeeditor';
import {
  CodeMirrorEditor,
  EditorExtensionRegistry,
  IEditorExtensionRegistry
} from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';
import { Extension, Prec, StateEffect, StateField } from '@codemirror/state';
import { EditorView, hoverTooltip, keymap, showTooltip, Tooltip, tooltips } from '@codemirror/view';
import { cardOf } from './card.js';
import { CATALOG } from './catalog.js';
import { describe } from './describe.js';
import { importsAround } from './notebook.js';
import { INkiSettings } from './settings.js';

export const EXPLAIN = 'nki-lab:explain';

const show = StateEffect.define<Tooltip | null>();

/** Holds the card that was asked for by the command; writing, moving and Escape take it away. */
const asked = StateField.define<Tooltip | null>({
  create: () => null,
  update(shown, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(show)) {
        return effect.value;
      }
    }
    return transaction.docChanged || transaction.selection ? null : shown;
  },
  provide: field => showTooltip.from(field)
});

const close = Prec.highest(
  keymap.of([
    {
      key: 'Escape',
      run: view => {
        const open = view.state.field(asked, false) ?? null;
        if (open) {
          view.dispatch({ effects: show.of(null) });
        }
        return open !== null;
      },
      stopPropagation: true
    }
  ])
);

function tooltipAt(view: EditorView, offset: number, model: CodeEditor.IModel): Tooltip | null {
  const card = describe(view.state.doc.toString(), offset, CATALOG, importsAround(model));
  return card
    ? {
        pos: card.from,
        end: card.to,
        above: true,
        create: () => ({ dom: cardOf(card) })
      }
    : null;
}

function explaining(model: CodeEditor.IModel, settings: INkiSettings): Extension {
  return [
    hoverTooltip((view, offset) =>
      settings.chosen.hover ? tooltipAt(view, offset, model) : null
    ),
    asked,
    close,
    // A cell is only as large as its text: cards hang on the page.
    tooltips({ parent: document.body })
  ];
}

function activate(
  app: JupyterFrontEnd,
  editors: IEditorExtensionRegistry,
  settings: INkiSettings,
  tracker: INotebookTracker | null,
  palette: ICommandPalette | null
): void {
  editors.addExtension({
    name: 'nki-lab:explain',
    factory: ({ model }) =>
      model.mimeType.includes('python') || model.mimeType === 'text/plain'
        ? EditorExtensionRegistry.createImmutableExtension(explaining(model, settings))
        : null
  });
  const editor = () => {
    const active = tracker?.activeCell?.editor;
    return active instanceof CodeMirrorEditor ? active : undefined;
  };
  app.commands.addCommand(EXPLAIN, {
    label: 'NKI: Explain the Word under the Cursor',
    caption: 'Show operands, memories, engines, limits and cost of an NKI name, or what an option does',
    isEnabled: () => editor() !== undefined,
    execute: () => {
      const found = editor();
      if (!found) {
        return;
      }
      const view = found.editor;
      view.focus();
      const { head } = view.state.selection.main;
      view.dispatch({ effects: show.of(tooltipAt(view, head, found.model)) });
    }
  });
  palette?.addItem({ command: EXPLAIN, category: 'NKI' });
}

export const hover: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:hover',
  description: 'Explains NKI names, arguments and options.',
  autoStart: true,
  requires: [IEditorExtensionRegistry, INkiSettings],
  optional: [INotebookTracker, ICommandPalette],
  activate
};
