/**
 * How does the server's page of a file get into a frame, and what is said where there is none?
 *
 * The frame runs the page's script and nothing else: it has no origin, so that neither JupyterLab nor the server can be
 * reached from it.
 */

import { URLExt } from '@jupyterlab/coreutils';
import { Contents, ServerConnection } from '@jupyterlab/services';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

export type Theme = 'light' | 'dark';

/** Why a file is not shown, and what to do about it. */
export interface IProblem {
  message: string;
  help: string;
}

/** Where the views of a file come from. */
export interface ISource {
  /** Path on the server. */
  readonly path: string;
  /** Tells the file's state without its content; rejects where it is gone. */
  look(): Promise<Pick<Contents.IModel, 'last_modified' | 'size'>>;
  /** Asks the server for an address. */
  ask(url: string, init: RequestInit): Promise<Response>;
  /** Address of the server. */
  readonly baseUrl: string;
  theme(): Theme;
}

/** Milliseconds between two looks at whether the file has changed. */
const LOOK_MS = 3000;

/** Returns where the server has the page of a file. */
export function pageAddress(baseUrl: string, path: string, theme: Theme): string {
  const page = URLExt.join(baseUrl, 'nki-lab/page', URLExt.encodeParts(path));
  return `${page}?theme=${theme}`;
}

/** Returns what an answer without a page says. */
export async function problemOf(response: Response): Promise<IProblem> {
  const text = await response.text();
  try {
    const { message, help } = JSON.parse(text);
    if (typeof message === 'string') {
      return { message, help: typeof help === 'string' ? help : '' };
    }
  } catch {
    // Something between us and the server answers in its own way.
  }
  return { message: `The server answered with status ${response.status}.`, help: '' };
}

/** Returns what is said where asking failed. */
export function problemFrom(error: unknown): IProblem {
  const why = error instanceof Error ? error.message : String(error);
  return { message: `The server could not be asked: ${why}`, help: '' };
}

/** Returns a frame that shows a page. */
function frameOf(page: string, title: string): HTMLIFrameElement {
  const frame = document.createElement('iframe');
  // What is chosen in a view can be kept as a file; that needs no origin.
  frame.setAttribute('sandbox', 'allow-scripts allow-downloads');
  frame.setAttribute('allow', 'clipboard-write');
  frame.title = title;
  frame.className = 'nki-page-frame';
  frame.srcdoc = page;
  return frame;
}

/** The views of a file. */
export class PageView extends Widget {
  private _asked: AbortController | null = null;
  private _frame: HTMLIFrameElement | null = null;
  private _seen = '';
  private _timer: number;

  constructor(readonly source: ISource) {
    super();
    this.addClass('nki-page');
    this._timer = window.setInterval(() => void this.look(), LOOK_MS);
    this._say('nki-page-wait', `Reading ${this._name} …`);
    void this.load();
  }

  dispose(): void {
    window.clearInterval(this._timer);
    this._asked?.abort();
    super.dispose();
  }

  /** Shows the file as it is now; what was shown stays until then. */
  async load(): Promise<void> {
    this._asked?.abort();
    const asked = (this._asked = new AbortController());
    const { path, baseUrl } = this.source;
    let problem: IProblem;
    try {
      this._seen = await this._state();
      const url = pageAddress(baseUrl, path, this.source.theme());
      const response = await this.source.ask(url, { signal: asked.signal });
      if (response.ok) {
        const page = await response.text();
        if (!asked.signal.aborted) {
          this._show(page);
        }
        return;
      }
      problem = await problemOf(response);
    } catch (error) {
      problem = problemFrom(error);
    }
    if (!asked.signal.aborted) {
      this._say('nki-page-problem', problem.message, problem.help);
    }
  }

  /** Shows the file again if it has changed, or has come or gone. */
  async look(): Promise<void> {
    if (this.isVisible && !document.hidden && (await this._state()) !== this._seen) {
      await this.load();
    }
  }

  /** Tells the page which theme holds. */
  themeChanged(): void {
    this._frame?.contentWindow?.postMessage({ nkiTheme: this.source.theme() }, '*');
  }

  protected onAfterShow(_: Message): void {
    void this.look();
  }

  protected onActivateRequest(_: Message): void {
    this._frame?.focus();
  }

  private get _name(): string {
    return this.source.path.split('/').pop() ?? '';
  }

  private async _state(): Promise<string> {
    try {
      const { last_modified, size } = await this.source.look();
      return `${last_modified} ${size}`;
    } catch {
      return 'gone';
    }
  }

  private _show(page: string): void {
    this._frame = frameOf(page, `Views of ${this._name}`);
    // The theme may have changed while the page was on its way.
    this._frame.addEventListener('load', () => this.themeChanged());
    this.node.replaceChildren(this._frame);
  }

  private _say(kind: string, ...texts: string[]): void {
    this._frame = null;
    const box = document.createElement('div');
    box.className = kind;
    box.setAttribute('role', kind === 'nki-page-problem' ? 'alert' : 'status');
    for (const text of texts.filter(text => text !== '')) {
      const line = document.createElement('p');
      line.textContent = text;
      box.append(line);
    }
    this.node.replaceChildren(box);
  }
}

/** Returns how a server is asked with the credentials of this page. */
export function asking(settings: ServerConnection.ISettings): Pick<ISource, 'ask' | 'baseUrl'> {
  return {
    baseUrl: settings.baseUrl,
    ask: (url, init) => ServerConnection.makeRequest(url, init, settings)
  };
}
