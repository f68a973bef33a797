/**
 * How do tokens become colours in an editor?  As decorations on top of the Python highlighting.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CodeEditor } from '@jupyterlab/codeeditor';
import { EditorExtensionRegistry, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import { Extension, RangeSetBuilder, StateEffect } from '@codemirror/state';
import { Decoration, DecorationSet, EditorView, ViewPlugin, ViewUpdate } from '@codemirror/view';
import { CATALOG } from './catalog.js';
import { isNkiCell } from './magics.js';
import { importsAround, notebookOf, onImportsChanged } from './notebook.js';
import { Kind, tokenizer, Tokenizer } from './tokens.js';

const MAGIC_LINE = Decoration.line({ class: 'nki-magic-line' });
const KINDS: Record<Kind, Decoration> = {
  magic: Decoration.mark({ class: 'nki-magic' }),
  option: Decoration.mark({ class: 'nki-option' }),
  value: Decoration.mark({ class: 'nki-value' }),
  isa: Decoration.mark({ class: 'nki-isa' }),
  language: Decoration.mark({ class: 'nki-language' }),
  api: Decoration.mark({ class: 'nki-api' })
};

// Asks an editor to look again, since imports of another cell have changed.
const lookAgain = StateEffect.define<null>();

/** Returns an editor extension that marks what `tokenize` finds; style/base.css has the colours. */
function highlighter(tokenize: Tokenizer, model: CodeEditor.IModel): Extension {
  // A kernel is a page of text: reading it whole after each keystroke takes well under 1 ms.
  function decorate(view: EditorView): DecorationSet {
    const text = view.state.doc.toString();
    const asks = text.includes('import') || isNkiCell(text, CATALOG);
    const tokens = tokenize(text, asks ? importsAround(model) : undefined);
    const builder = new RangeSetBuilder<Decoration>();
    for (const { from, to, kind } of tokens) {
      if (kind === 'magic') {
        const line = view.state.doc.lineAt(from);
        builder.add(line.from, line.from, MAGIC_LINE);
      }
      builder.add(from, to, KINDS[kind]);
    }
    return builder.finish();
  }

  return ViewPlugin.fromClass(
    class {
      decorations: DecorationSet;
      destroy: () => void;

      constructor(view: EditorView) {
        this.decorations = decorate(view);
        this.destroy = onImportsChanged(notebook => {
          if (notebook === notebookOf(model)) {
            view.dispatch({ effects: lookAgain.of(null) });
          }
        });
      }

      update(update: ViewUpdate): void {
        const asked = update.transactions.some(({ effects }) => effects.some(e => e.is(lookAgain)));
        if (update.docChanged || asked) {
          this.decorations = decorate(update.view);
        }
      }
    },
    { decorations: plugin => plugin.decorations }
  );
}

export const highlight: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:highlight',
  description: 'Colours NKI names and options in %%nki cells.',
  autoStart: true,
  requires: [IEditorExtensionRegistry],
  activate: (_: JupyterFrontEnd, editors: IEditorExtensionRegistry) => {
    const tokenize = tokenizer(CATALOG);
    editors.addExtension({
      name: 'nki-lab:highlight',
      factory: ({ model }) =>
        EditorExtensionRegistry.createImmutableExtension(highlighter(tokenize, model))
    });
  }
};
