/**
 * What does nki_lab add to JupyterLab?  Wiring only: each feature lives in a file of its own.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { EditorExtensionRegistry, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import catalog from './catalog.json';
import { highlighter } from './highlight.js';
import { tokenizer } from './tokens.js';

const highlight: JupyterFrontEndPlugin<void> = {
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

export default [highlight];
