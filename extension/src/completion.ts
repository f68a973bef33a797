/**
 * How does JupyterLab offer what can be written?  As one of its providers of completions, ahead of the kernel's.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  CompletionHandler,
  ICompletionContext,
  ICompletionProvider,
  ICompletionProviderManager
} from '@jupyterlab/completer';
import { CATALOG } from './catalog.js';
import { importsAround } from './notebook.js';
import { INkiSettings } from './settings.js';
import { suggest } from './suggest.js';

// JupyterLab's own signs for types; a type it does not know gets its first letter.
const TYPES: Record<string, string> = {
  choices: 'class',
  choice: 'instance',
  memory: 'instance',
  limit: 'instance',
  dtype: 'class'
};

class Provider implements ICompletionProvider {
  readonly identifier = 'CompletionProvider:nki-lab';
  // The kernel's has 550: its answers follow, so that no name of the user's is lost.
  readonly rank = 600;
  readonly renderer = null;

  constructor(private readonly settings: INkiSettings) {}

  async isApplicable(context: ICompletionContext): Promise<boolean> {
    const type = context.editor?.model.mimeType ?? '';
    return this.settings.chosen.completion && type.includes('python');
  }

  async fetch(
    { text, offset }: CompletionHandler.IRequest,
    { editor }: ICompletionContext
  ): Promise<CompletionHandler.ICompletionItemsReply> {
    const elsewhere = editor ? importsAround(editor.model) : undefined;
    const { start, items } = suggest(text, offset, CATALOG, elsewhere);
    return {
      start,
      end: offset,
      items: items.map(({ text, kind, doc }) => ({
        label: text,
        insertText: text,
        type: TYPES[kind] ?? kind,
        documentation: doc
      }))
    };
  }
}

export const completion: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:completion',
  description: 'Completes NKI names, arguments and options without a kernel.',
  autoStart: true,
  requires: [ICompletionProviderManager, INkiSettings],
  activate: (_: JupyterFrontEnd, manager: ICompletionProviderManager, settings: INkiSettings) => {
    manager.registerProvider(new Provider(settings));
  }
};
