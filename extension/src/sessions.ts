/**
 * Which notebooks are open, and what do their kernels say about NKI?  Panels follow the current one.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';
import { Session } from './session.js';

export interface INkiSessions {
  /** The session of the notebook in front, or of the last one that was. */
  readonly current: Session | null;
  /** Every open notebook's. */
  readonly all: Session[];
  /** Emitted when `current` has changed, or what it says. */
  readonly currentChanged: ISignal<INkiSessions, void>;
  /** Emitted with the session of a notebook that has been opened. */
  readonly added: ISignal<INkiSessions, Session>;
  of(panel: NotebookPanel): Session | undefined;
}

export const INkiSessions = new Token<INkiSessions>(
  'nki-lab:INkiSessions',
  'What the kernels of the open notebooks say about NKI.'
);

class Sessions implements INkiSessions {
  readonly currentChanged: Signal<INkiSessions, void> = new Signal(this);
  readonly added: Signal<INkiSessions, Session> = new Signal(this);

  constructor(private _tracker: INotebookTracker) {
    _tracker.forEach(panel => this._add(panel));
    _tracker.widgetAdded.connect((_, panel) => this._add(panel));
    _tracker.currentChanged.connect(() => this.currentChanged.emit());
    // The number of a cell, by which people know it, comes after what the kernel says of its run.
    NotebookActions.executed.connect((_, { notebook }) => {
      if (this.current?.panel.content === notebook) {
        this.currentChanged.emit();
      }
    });
  }

  get all(): Session[] {
    return [...this._sessions.values()];
  }

  get current(): Session | null {
    const panel = this._tracker.currentWidget;
    return (panel && this._sessions.get(panel)) ?? null;
  }

  of(panel: NotebookPanel): Session | undefined {
    return this._sessions.get(panel);
  }

  private _add(panel: NotebookPanel): void {
    const session = new Session(panel);
    this._sessions.set(panel, session);
    panel.disposed.connect(() => {
      this._sessions.delete(panel);
      this.currentChanged.emit();
    });
    const tell = () => {
      if (this.current === session) {
        this.currentChanged.emit();
      }
    };
    session.changed.connect(tell);
    session.marked.connect(tell);
    // Names of the notebook and of its cells are shown, and marks go and come with their cells.
    panel.context.pathChanged.connect(tell);
    void panel.context.ready.then(() => panel.content.model?.cells.changed.connect(tell));
    this.added.emit(session);
    tell();
  }

  private _sessions = new Map<NotebookPanel, Session>();
}

export const sessions: JupyterFrontEndPlugin<INkiSessions> = {
  id: 'nki-lab:sessions',
  description: 'Hears what the kernels of notebooks say about NKI.',
  autoStart: true,
  requires: [INotebookTracker],
  provides: INkiSessions,
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker): INkiSessions => new Sessions(tracker)
};
