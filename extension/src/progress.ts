/**
 * How does a cell show work that takes longer than a second, and how is it stopped?
 *
 * The kernel opens a comm when work has taken a second, tells on it how far the work is, and closes it. A button in the
 * page cannot be heard by a kernel that works, so it interrupts the kernel, as the toolbar's does.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { PanelLayout } from '@lumino/widgets';
import { ProgressBar } from './progress_bar.js';

// nki_lab/magics/front_end.py and nki_lab/magics/progress.py have the same names.
const GREETING = 'nki-lab:greeting';
const ANSWER = 'nki-lab:answer';
const PROGRESS = 'nki-lab:progress';

/** A thread of the kernel for our comm is waited for this long. */
const SUBSHELL_MS = 1000;

/** Statuses in which a kernel does no work any more, and says nothing about what it did. */
const GONE: readonly Kernel.Status[] = ['restarting', 'autorestarting', 'dead', 'terminating'];

/** Puts a bar below the input of a cell; false where the notebook has no such cell, or has not drawn it. */
function place(panel: NotebookPanel, id: string, bar: ProgressBar): boolean {
  const cell = panel.content.widgets.find(cell => cell.model.sharedModel.getId() === id);
  const layout = cell?.layout;
  if (!(layout instanceof PanelLayout)) {
    return false;
  }
  const input = layout.widgets.findIndex(part => part.hasClass('jp-Cell-inputWrapper'));
  if (input < 0) {
    return false;
  }
  layout.insertWidget(input + 1, bar);
  return true;
}

/** Lets the kernel know that we are here: at once where it hears comms while it works, else behind waiting cells. */
async function answer(kernel: Kernel.IKernelConnection): Promise<void> {
  // JupyterLab gives comms a thread of the kernel from 4.4 on, unless its settings say no: then this never resolves.
  const comm: Kernel.IComm & { subshellStarted?: Promise<void> } = kernel.createComm(ANSWER);
  const late = new Promise(resolve => setTimeout(resolve, SUBSHELL_MS));
  await Promise.race([kernel.supportsSubshells ? comm.subshellStarted : undefined, late]);
  // It stays open: with the comm its thread would end, and asyncio complains, in a cell, of what was under way in it.
  await comm.open().done;
}

/** Shows in a notebook what its kernel says of its work. */
function follow(panel: NotebookPanel, kernel: Kernel.IKernelConnection): void {
  const bars = new Set<ProgressBar>();

  kernel.registerCommTarget(GREETING, () => {
    // A kernel that ends meanwhile has nothing to hear.
    answer(kernel).catch(() => undefined);
  });

  kernel.registerCommTarget(PROGRESS, (comm, opened) => {
    const { cellId } = opened.content.data as { cellId: string };
    const bar = new ProgressBar(() => void panel.sessionContext.session?.kernel?.interrupt());
    bars.add(bar);
    comm.onMsg = (message: KernelMessage.ICommMsgMsg) => {
      const { fraction, text } = message.content.data as { fraction: number | null; text: string };
      bar.tell(fraction, text);
      // A cell far off the visible part of a notebook is drawn when somebody scrolls to it.
      if (!bar.parent && !bar.isDisposed) {
        place(panel, cellId, bar);
      }
    };
    comm.onClose = () => {
      bars.delete(bar);
      bar.dispose();
    };
  });

  kernel.statusChanged.connect((_, status) => {
    if (GONE.includes(status)) {
      bars.forEach(bar => bar.dispose());
      bars.clear();
    }
  });
}

export const progress: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:progress',
  description: 'Shows how far the work of a cell is, with a button that stops it.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker): void => {
    tracker.widgetAdded.connect((_, panel) => {
      const context = panel.sessionContext;
      if (context.session?.kernel) {
        follow(panel, context.session.kernel);
      }
      context.kernelChanged.connect((_, { newValue }) => {
        if (newValue) {
          follow(panel, newValue);
        }
      });
    });
  }
};
