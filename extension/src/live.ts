/**
 * Shows the live view of a run while its kernel answers, and the stored forms of the same output when it does not.
 *
 * A notebook keeps the id of a live view, never the view: once the kernel has ended, the id leads nowhere, and the
 * renderer of widgets has nothing but an error to show. So an output names our type beside that of widgets; we rank
 * before the renderer of widgets, and hand over to it as long as the kernel holds the view.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMime, IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import { PartialJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Panel, Widget } from '@lumino/widgets';
import { element } from './dom.js';

/** The type of an output that has a live view, beside the id of the view and its stored forms. */
export const LIVE = 'application/vnd.nki-lab.view+json';
const VIEW = 'application/vnd.jupyter.widget-view+json';
/** Before the renderer of widgets, which has -10. */
const RANK = -20;
/** Milliseconds that a view may take to appear before the stored forms are shown in its place. */
const PATIENCE = 1000;

/** Said above the stored forms. */
export const HINT = 'This is a stored picture. Run the cells up to this one to make it live.';

/** What a renderer asks about its notebook. */
export interface IKernelOf {
  /** Tells whether the kernel holds a view. */
  holds(id: string): boolean;
  /** Calls `look` whenever the answers may have changed; returns how to end that. */
  watch(look: () => void): () => void;
}

/** Asks the open notebook of a panel. */
export function kernelOf({ sessionContext }: Pick<NotebookPanel, 'sessionContext'>): IKernelOf {
  return {
    holds: id => Boolean(sessionContext.session?.kernel?.hasComm(id)),
    watch: look => {
      const signals = [
        sessionContext.kernelChanged,
        sessionContext.statusChanged,
        sessionContext.connectionStatusChanged
      ] as const;
      signals.forEach(signal => signal.connect(look));
      return () => signals.forEach(signal => signal.disconnect(look));
    }
  };
}

/** An output: its live view, or what the notebook stores of it. */
export class LiveOutput extends Panel implements IRenderMime.IRenderer {
  constructor(
    private _kernel: IKernelOf,
    private _rendermime: IRenderMimeRegistry
  ) {
    super();
    this.addClass('nki-live');
    this._unwatch = _kernel.watch(() => this._look());
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._model = model;
    this._drop();
    this._stored?.dispose();
    this._stored = null;
    this._look();
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._unwatch();
      this._drop();
      super.dispose();
    }
  }

  /** Shows what there is now. */
  private _look(): void {
    if (this.isDisposed || !this._model) {
      return;
    }
    const { data, trusted } = this._model;
    const view = data[VIEW] as ReadonlyPartialJSONObject | undefined;
    const isHeld = trusted && typeof view?.model_id === 'string' && this._kernel.holds(view.model_id);
    if (!isHeld) {
      this._drop();
      this._show(true);
    } else if (!this._live) {
      const live = (this._live = this._rendermime.createRenderer(VIEW));
      this._observer = new MutationObserver(() => this._look());
      this._observer.observe(live.node, { childList: true });
      this.addWidget(live);
      live.hide();
      // The renderer of widgets writes into the data that it is given.
      void live.renderModel(new MimeModel({ data: { [VIEW]: { ...view } }, trusted: true }));
      this._timer = window.setTimeout(() => this._show(!this._isLive), PATIENCE);
    } else if (this._isLive) {
      this._live.show();
      this._show(false);
    } else if (this._stored) {
      this._show(true);
    }
  }

  /** Whether the view is there: until then its renderer holds words. */
  private get _isLive(): boolean {
    return Boolean(this._live?.node.firstElementChild);
  }

  /** Shows or hides the stored forms, which are made when they are first needed. */
  private _show(isShown: boolean): void {
    if (!this._stored && isShown) {
      this._stored = this._storedForms(this._model!);
      this.addWidget(this._stored);
    }
    this._stored?.setHidden(!isShown);
    if (isShown) {
      this._live?.hide();
    }
  }

  private _storedForms({ data, metadata, trusted }: IRenderMime.IMimeModel): Widget {
    const { [LIVE]: _, [VIEW]: __, ...rest } = data as PartialJSONObject;
    const stored = new Panel();
    stored.addWidget(new Widget({ node: element('p', { class: 'nki-live-hint', role: 'note' }, HINT) }));
    const type = this._rendermime.preferredMimeType(rest, trusted ? 'any' : 'ensure');
    if (type) {
      const renderer = this._rendermime.createRenderer(type);
      stored.addWidget(renderer);
      void renderer.renderModel(
        new MimeModel({ data: rest, metadata: metadata as PartialJSONObject, trusted })
      );
    }
    const text = rest['text/plain'];
    if (type !== 'text/plain' && typeof text === 'string') {
      const node = element(
        'details',
        { class: 'nki-live-text' },
        element('summary', {}, 'Text'),
        element('pre', {}, text)
      );
      stored.addWidget(new Widget({ node }));
    }
    return stored;
  }

  private _drop(): void {
    window.clearTimeout(this._timer);
    this._observer?.disconnect();
    this._live?.dispose();
    this._observer = this._live = null;
  }

  private _model: IRenderMime.IMimeModel | null = null;
  private _live: IRenderMime.IRenderer | null = null;
  private _stored: Widget | null = null;
  private _observer: MutationObserver | null = null;
  private _timer = 0;
  private _unwatch: () => void;
}

export const live: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:live',
  description: 'Shows live views of runs, and their stored pictures and text where no kernel holds them.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker): void => {
    const add = (panel: NotebookPanel) => {
      const kernel = kernelOf(panel);
      const { rendermime } = panel.content;
      // Safe, since a notebook that is not trusted gets its stored forms only, as JupyterLab would show them.
      const createRenderer = () => new LiveOutput(kernel, rendermime);
      rendermime.addFactory({ safe: true, mimeTypes: [LIVE], createRenderer }, RANK);
    };
    tracker.forEach(add);
    tracker.widgetAdded.connect((_, panel) => add(panel));
  }
};
