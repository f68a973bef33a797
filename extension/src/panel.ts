/**
 * What does the panel at the side show?  The chip, the runs, the memories and the marks of the notebook in front.
 */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { goTo, nameOf } from './cells.js';
import { loadNkiLab, showRun, VIEWS } from './commands.js';
import { button, element } from './dom.js';
import { nkiIcon } from './icon.js';
import { locate } from './positions.js';
import { IMark, IMemory, IRun, IStatus } from './protocol.js';
import { Session, State } from './session.js';
import { INkiSessions } from './sessions.js';
import { bytes, share, time } from './times.js';

export const SHOW_PANEL = 'nki-lab:show-panel';
const ID = 'nki-lab-panel';
const NO_RUNS = "No kernel has run yet: run a %%nki cell with --run 'kernel(a)'.";

const SAID: Record<Exclude<State, 'loaded'>, string> = {
  none: 'This notebook has no running kernel.',
  unloaded: 'nki_lab is not loaded in the kernel of this notebook.',
  restarted: 'The kernel was restarted: what had run in it is gone, and nki_lab is not loaded.',
  other: 'The kernel has another version of nki_lab, which this panel does not understand.'
};

/** Follows the current notebook. */
export class NkiPanel extends Widget {
  constructor(private _sessions: INkiSessions) {
    super();
    this.id = ID;
    this.addClass('nki-side');
    this.title.icon = nkiIcon;
    this.title.caption = 'NKI: chip, runs, errors and findings';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'NKI');
    _sessions.currentChanged.connect(() => this.update());
    this.update();
  }

  protected onUpdateRequest(_: Message): void {
    // What had the focus keeps it: a run that ends must not take a reader away from where they are.
    const focused = this.node.contains(document.activeElement)
      ? document.activeElement!.getAttribute('data-key')
      : null;
    this.node.replaceChildren(...this._content());
    if (focused) {
      this.node.querySelector<HTMLElement>(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    }
  }

  private _content(): HTMLElement[] {
    const session = this._sessions.current;
    if (!session) {
      return [element('p', { class: 'nki-hint' }, 'Open a notebook to see what its kernels do.')];
    }
    const { title } = session.panel;
    const name = element('h2', { class: 'nki-side-title', title: title.label }, title.label);
    const { state, status } = session;
    if (state !== 'loaded' || !status) {
      const said = element('p', { class: 'nki-hint', role: 'status' }, SAID[state as Exclude<State, 'loaded'>]);
      const offers = state === 'unloaded' || state === 'restarted';
      const load = () => void loadNkiLab(session.panel);
      return [name, said, ...(offers ? [button('Run %load_ext nki_lab', load, { 'data-key': 'load' })] : [])];
    }
    const run = status.runs.find(({ id }) => id === this._chosen.get(session)) ?? status.runs[0];
    return [
      name,
      ...chip(session, status),
      ...this._runs(session, status, run),
      ...(run ? memories(run) : []),
      ...marks(session)
    ];
  }

  private _runs(session: Session, status: IStatus, chosen: IRun | undefined): HTMLElement[] {
    const rows = status.runs.map(run => {
      const where = run.cell ? nameOf(session.panel, run.cell) : '';
      const often = run.times > 1 ? `, the last of ${run.times}` : '';
      const cores = run.cores > 1 ? `, ${run.cores} cores` : '';
      const head = [
        element('span', { class: 'nki-run-name' }, run.kernel),
        element('span', { class: 'nki-run-time' }, time(run.ns)),
        element('span', { class: 'nki-run-where' }, `${run.target}${cores}, ${where}${often}`),
        element('span', { class: `nki-run-bound nki-of-${run.resource || 'none'}` }, run.resource || 'not timed')
      ];
      const choose = () => {
        this._chosen.set(session, run.id);
        this.update();
      };
      const pressed = String(run === chosen);
      const row = button(head, choose, { class: 'nki-button nki-run', 'aria-pressed': pressed, 'data-key': `run ${run.id}` });
      return element('li', {}, row, ...(run === chosen ? [views(session, run)] : []));
    });
    const list = rows.length ? element('ul', { class: 'nki-entries' }, ...rows) : element('p', { class: 'nki-hint' }, NO_RUNS);
    return [heading('Recent runs (modelled times)'), list];
  }

  // Which run of a notebook was clicked; the last one where none was, or it has gone.
  private _chosen = new WeakMap<Session, number>();
}

function heading(text: string): HTMLElement {
  return element('h3', { class: 'nki-side-heading' }, text);
}

function chip(session: Session, status: IStatus): HTMLElement[] {
  const select = element('select', { class: 'nki-select', 'data-key': 'target', 'aria-label': 'Chip' });
  for (const name of status.targets) {
    select.append(new Option(name, name, false, name === status.target));
  }
  select.addEventListener('change', () => session.chooseTarget(select.value));
  const row = (name: string, ...value: (Node | string)[]) => [
    element('dt', {}, name),
    element('dd', {}, ...value)
  ];
  const backend = row('Backend', status.backend);
  return [element('dl', { class: 'nki-side-facts' }, ...row('Target', select), ...backend)];
}

/** What more is known about the chosen run, and the views that show it. */
function views(session: Session, run: IRun): HTMLElement {
  const shown = VIEWS.map(([magic, label]) => {
    const attributes: Record<string, string> = { 'data-key': `view ${run.id} ${magic}` };
    if (run.variable === null) {
      attributes.disabled = '';
    } else {
      attributes.title = `Run ${magic} ${run.variable} below the cell`;
    }
    return button(label, () => void showRun(session.panel, run, magic), attributes);
  });
  const kept =
    run.variable === null ? 'No variable holds this run any more.' : `In the variable ${run.variable}.`;
  return element(
    'div',
    { class: 'nki-run-more' },
    element('p', {}, run.bound ? `Bound by ${run.bound}.` : 'Too long to be timed for a list: see its report.'),
    element('p', {}, kept),
    element('div', { class: 'nki-buttons', role: 'group', 'aria-label': `Views of ${run.kernel}` }, ...shown)
  );
}

function memories(run: IRun): HTMLElement[] {
  const hint = element('p', { class: 'nki-hint' }, 'Too long to be looked at for a list: see its layout.');
  const gauges = run.memory.map(gauge);
  return [heading(`Memory of ${run.kernel}, bytes per partition`), ...(gauges.length ? gauges : [hint])];
}

function gauge({ memory, peak, limit }: IMemory): HTMLElement {
  const name = memory.toUpperCase();
  const text = `${bytes(peak)} of ${bytes(limit)} (${share(peak, limit)})`;
  const meter = element('div', {
    class: `nki-gauge${peak > limit ? ' nki-over' : ''}`,
    role: 'meter',
    'aria-label': `${name}, peak`,
    'aria-valuemin': '0',
    'aria-valuemax': String(limit),
    'aria-valuenow': String(peak),
    'aria-valuetext': text
  });
  const bar = element('div', { class: `nki-gauge-bar nki-of-${memory}` });
  bar.style.width = `${Math.min(100, (100 * peak) / limit)}%`;
  meter.append(bar);
  return element(
    'div',
    { class: 'nki-gauge-row' },
    element('span', { class: 'nki-gauge-name' }, name),
    meter,
    element('span', { class: 'nki-gauge-text' }, text)
  );
}

function marks(session: Session): HTMLElement[] {
  const rows = session.listed().map(({ id, mark }) => element('li', {}, markRow(session, id, mark)));
  const list = rows.length
    ? element('ul', { class: 'nki-entries' }, ...rows)
    : element('p', { class: 'nki-hint' }, 'None in the cells that have been run or checked.');
  return [heading('Errors and findings'), list, ...checked(session)];
}

function markRow(session: Session, cell: string, mark: IMark): HTMLElement {
  const where = `${nameOf(session.panel, cell)}, line ${mark.line}`;
  const go = () => void goTo(session.panel, cell, doc => locate(doc, mark));
  return button(
    [
      element('span', { class: `nki-mark-severity nki-${mark.severity}` }, `${mark.severity}[${mark.code}]`),
      element('span', { class: 'nki-mark-where' }, where),
      element('span', { class: 'nki-mark-message' }, mark.message)
    ],
    go,
    { class: 'nki-button nki-mark', 'data-key': `mark ${cell} ${mark.line} ${mark.column} ${mark.code}` }
  );
}

function checked({ checked }: Session): HTMLElement[] {
  if (!checked) {
    return [];
  }
  const lines = [`The last check looked at ${checked.cells} and compiled ${checked.compiled}, without running any.`];
  lines.push(...checked.unseen.map(why => `Not compiled: ${why}.`));
  return [element('div', { class: 'nki-hint', role: 'status' }, ...lines.map(line => element('p', {}, line)))];
}

export const panel: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:panel',
  description: 'Shows chip, runs, memories, errors and findings of the current notebook at the side.',
  autoStart: true,
  requires: [INkiSessions],
  optional: [ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    sessions: INkiSessions,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ) => {
    const panel = new NkiPanel(sessions);
    app.shell.add(panel, 'right', { rank: 900 });
    restorer?.add(panel, ID);
    app.commands.addCommand(SHOW_PANEL, {
      label: 'NKI: Show Runs, Memory and Errors',
      execute: () => app.shell.activateById(ID)
    });
    palette?.addItem({ command: SHOW_PANEL, category: 'NKI' });
  }
};
