/**
 * How do tokens become colours in an editor?  As decorations on top of the Python highlighting.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { EditorExtensionRegistry, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import { Extension, RangeSet, RangeSetBuilder } from '@codemirror/state';
import { Decoration, DecorationSet, EditorView, ViewPlugin, ViewUpdate } from '@codemirror/view';
import catalog from './catalog.json';
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

/** Returns an editor extension that marks what `tokenize` finds; style/base.css has the colours. */
function highlighter(tokenize: Tokenizer): Extension {
  // A kernel is a page of text: reading it whole after each keystroke takes well under 1 ms.
  function decorate(view: EditorView): DecorationSet {
    const tokens = tokenize(view.state.doc.toString());
    if (tokens.length === 0) {
      return RangeSet.empty;
    }
    const builder = new RangeSetBuilder<Decoration>();
    const line = view.state.doc.lineAt(tokens[0].from);
    builder.add(line.from, line.from, MAGIC_LINE);
    for (const { from, to, kind } of tokens) {
      builder.add(from, to, KINDS[kind]);
    }
    return builder.finish();
  }

  return ViewPlugin.fromClass(
    class {
      decorations: DecorationSet;

      constructor(view: EditorView) {
        this.decorations = decorate(view);
      }

      update(update: ViewUpdate): void {
        if (update.docChanged) {
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
    const extension = highlighter(tokenizer(catalog));
    editors.addExtension({
      name: 'nki-lab:highlight',
      factory: () => EditorExtensionRegistry.createImmutableExtension(extension)
    });
  }
};
