/**
 * What does the kernel of one notebook say about NKI?
 */

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { JSONObject, PromiseDelegate } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import { Marks } from './marks.js';
import { IChecked, IMark, IStatus, Message, PROTOCOL, TARGET } from './protocol.js';

/**
 * `none`: no kernel runs. `unloaded`: nki_lab is not loaded in it. `restarted`: it was, and the kernel has been
 * started anew since. `other`: an nki_lab that this extension does not understand. `loaded`: it talks with us.
 */
export type State = 'none' | 'unloaded' | 'restarted' | 'other' | 'loaded';

/** How many cells a check looked at and compiled, and why it did not compile the others. */
export interface IChecks {
  cells: number;
  compiled: number;
  unseen: string[];
}

/** What a notebook's kernel says. */
export class Session {
  readonly marks = new Marks();
  /** Emitted with the cells whose marks have changed. */
  readonly marked: Signal<Session, Set<string>> = new Signal(this);
  /** Emitted when anything else has changed. */
  readonly changed: Signal<Session, void> = new Signal(this);

  /** What the last check could see; null before the first. */
  checked: IChecks | null = null;

  constructor(readonly panel: NotebookPanel) {
    const { sessionContext } = panel;
    sessionContext.kernelChanged.connect((_, { newValue }) => this._attach(newValue));
    sessionContext.statusChanged.connect((_, status) => {
      if (status === 'restarting' || status === 'autorestarting') {
        this._forget(this.state === 'loaded' || this.state === 'restarted' ? 'restarted' : 'unloaded');
      } else if (status === 'dead' || status === 'terminating') {
        this._forget('none');
      }
    });
    this._attach(sessionContext.session?.kernel ?? null);
  }

  get state(): State {
    return this._state;
  }

  /** What the kernel last said of itself; null unless it is loaded. */
  get status(): IStatus | null {
    return this._status;
  }

  get isDisposed(): boolean {
    return this.panel.isDisposed;
  }

  /** Returns all marks from top to bottom; a cell that is no code any more has none to show. */
  listed(): { index: number; id: string; mark: IMark }[] {
    return this.panel.content.widgets.flatMap(({ model }, index) =>
      model.type === 'code' ? this.marks.of(model.id).map(mark => ({ index, id: model.id, mark })) : []
    );
  }

  /** Chooses the chip for what is compiled from now on. */
  chooseTarget(name: string): void {
    this._send({ kind: 'target', name });
  }

  /** Asks what is wrong with a cell, without running it; null where the kernel ends before it answers. */
  check(cell: string, text: string): Promise<IChecked | null> {
    const id = ++this._asked;
    const answer = new PromiseDelegate<IChecked | null>();
    if (this.state !== 'loaded') {
      return Promise.resolve(null);
    }
    this._waiting.set(id, answer);
    this._send({ kind: 'check', id, cell, text });
    return answer.promise;
  }

  /** Notes what the last check of this notebook could see. */
  tellChecked(checked: IChecks): void {
    this.checked = checked;
    this.changed.emit();
  }

  /** Takes a mark away whose text has been changed. */
  drop(cell: string, mark: IMark): void {
    if (this.marks.drop(cell, mark)) {
      this.marked.emit(new Set());
    }
  }

  private _attach(kernel: Kernel.IKernelConnection | null): void {
    this._forget(kernel ? 'unloaded' : 'none');
    if (!kernel) {
      return;
    }
    kernel.registerCommTarget(TARGET, (comm, message) => {
      const { protocol } = message.content.data as { protocol?: number };
      if (protocol === PROTOCOL) {
        this._adopt(comm);
      } else {
        this._forget('other');
      }
    });
    // The kernel may have loaded nki_lab before this page was opened.
    kernel.info
      .then(() => kernel.requestCommInfo({ target_name: TARGET }))
      .then(({ content }) => {
        const id = content.status === 'ok' && Object.keys(content.comms)[0];
        if (id && !this._comm && !kernel.isDisposed && !kernel.hasComm(id)) {
          this._adopt(kernel.createComm(TARGET, id));
          this._send({ kind: 'hello' });
        }
      })
      .catch(() => undefined); // it ended meanwhile
  }

  private _adopt(comm: Kernel.IComm): void {
    this._comm = comm;
    comm.onMsg = message => this._receive(message.content.data as unknown as Message);
    comm.onClose = () => {
      if (this._comm === comm) {
        this._forget('unloaded');
      }
    };
  }

  private _receive(message: Message): void {
    if (message.kind === 'status') {
      this._status = message;
      this._state = 'loaded';
      this.changed.emit();
    } else if (message.kind === 'diagnostics' || message.kind === 'checked') {
      const changed = this.marks.update(message.origin, message.cells);
      if (changed.size) {
        this.marked.emit(changed);
      }
      if (message.kind === 'checked') {
        this._waiting.get(message.id)?.resolve(message);
        this._waiting.delete(message.id);
      }
    }
  }

  private _forget(state: State): void {
    this._comm = null;
    this._status = null;
    this.checked = null;
    this._state = state;
    const waiting = [...this._waiting.values()];
    this._waiting.clear();
    waiting.forEach(answer => answer.resolve(null));
    const cells = this.marks.clear();
    if (cells.size) {
      this.marked.emit(cells);
    }
    this.changed.emit();
  }

  private _send(message: JSONObject): void {
    if (this._comm && !this._comm.isDisposed) {
      this._comm.send(message);
    }
  }

  private _comm: Kernel.IComm | null = null;
  private _status: IStatus | null = null;
  private _state: State = 'none';
  private _asked = 0;
  private _waiting = new Map<number, PromiseDelegate<IChecked | null>>();
}
