/**
 * How does one begin?  Workshop and new notebooks from the launcher, NKI cells and views from the palette.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { Contents, KernelSpec } from '@jupyterlab/services';
import { CATALOG } from './catalog.js';
import { insert, runActive, VIEWS } from './commands.js';
import { nkiIcon } from './icon.js';
import { INkiSettings } from './settings.js';

const WORKSHOP = 'nki-lab:workshop';
const NEW_NOTEBOOK = 'nki-lab:new-notebook';
const INSERT_CELL = 'nki-lab:insert-cell';
const SHOW_LAST = 'nki-lab:show-last-run';

const SETUP = `%load_ext nki_lab
import numpy as np

a = np.arange(512, dtype=np.float32).reshape(128, 4)`;

/** Returns an NKI cell with a small kernel, for the chip that new cells are to have. */
export function exampleCell(target: string): string {
  return CATALOG.data.example.replace('%%nki', target ? `%%nki --target ${target}` : '%%nki');
}

/** Returns the path of the workshop's first notebook below the server's folder, if it is there. */
export async function findWorkshop(contents: Pick<Contents.IManager, 'get'>): Promise<string | undefined> {
  const top = (await contents.get('')).content as Contents.IModel[];
  const folders = top.filter(({ type, name }) => type === 'directory' && /workshop/i.test(name));
  const lists = [top];
  for (const { path } of folders) {
    lists.push((await contents.get(path)).content as Contents.IModel[]);
  }
  const first = lists.flat().find(({ type, name }) => type === 'notebook' && name === '00_setup.ipynb');
  return first?.path;
}

function pythonKernel(specs: KernelSpec.ISpecModels | null): string | undefined {
  const all = Object.values(specs?.kernelspecs ?? {});
  const usual = all.find(spec => spec?.name === specs?.default && spec?.language === 'python');
  return (usual ?? all.find(spec => spec?.language === 'python'))?.name;
}

function activate(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  settings: INkiSettings,
  launcher: ILauncher | null,
  palette: ICommandPalette | null
): void {
  const { commands, serviceManager } = app;
  const example = () => exampleCell(settings.chosen.defaultTarget);

  const create = async (cwd: string) => {
    const kernelName = pythonKernel(serviceManager.kernelspecs.specs);
    const panel: NotebookPanel = await commands.execute('notebook:create-new', { cwd, kernelName });
    await panel.context.ready;
    const model = panel.content.model!.sharedModel;
    model.cells[0].setSource(SETUP);
    model.insertCell(1, { cell_type: 'code', source: example() });
    panel.content.activeCellIndex = 0;
    return panel;
  };

  commands.addCommand(WORKSHOP, {
    label: 'nki_lab workshop',
    caption: 'Open the first notebook of the workshop, or a new one with a kernel where it is not there',
    icon: nkiIcon,
    execute: async ({ cwd }) => {
      const path = await findWorkshop(serviceManager.contents).catch(() => undefined);
      return path ? commands.execute('docmanager:open', { path }) : create(String(cwd ?? ''));
    }
  });
  commands.addCommand(NEW_NOTEBOOK, {
    label: 'NKI: New Notebook',
    caption: 'A notebook with a kernel that runs',
    icon: nkiIcon,
    execute: ({ cwd }) => create(String(cwd ?? ''))
  });
  commands.addCommand(INSERT_CELL, {
    label: 'NKI: Insert a %%nki Cell',
    caption: 'A cell with a kernel below this one',
    isEnabled: () => tracker.currentWidget !== null,
    execute: () => tracker.currentWidget && insert(tracker.currentWidget, example(), NotebookActions.insertBelow)
  });
  commands.addCommand(SHOW_LAST, {
    label: ({ label }) => `NKI: Show ${label ?? 'Timeline'} of the Last Run`,
    isEnabled: () => tracker.currentWidget !== null,
    execute: async ({ magic }) => {
      const panel = tracker.currentWidget;
      if (panel) {
        insert(panel, String(magic ?? VIEWS[0][0]), NotebookActions.insertBelow);
        await runActive(panel);
      }
    }
  });

  // In the category of notebooks a card has a kernel's picture or a letter.
  // The first card of a category lends it its picture.
  launcher?.add({ command: WORKSHOP, category: 'Other', rank: 0.5 });
  for (const command of [WORKSHOP, NEW_NOTEBOOK, INSERT_CELL]) {
    palette?.addItem({ command, category: 'NKI' });
  }
  for (const [magic, label] of VIEWS) {
    palette?.addItem({ command: SHOW_LAST, category: 'NKI', args: { magic, label } });
  }
}

export const start: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:start',
  description: 'Opens the workshop and new notebooks, and inserts NKI cells and views.',
  autoStart: true,
  requires: [INotebookTracker, INkiSettings],
  optional: [ILauncher, ICommandPalette],
  activate
};
