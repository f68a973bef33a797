/**
 * Which chip does the current notebook compile for?  The status bar says it, and changes it.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { MenuSvg } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { button } from './dom.js';
import { INkiSessions } from './sessions.js';

export const CHOOSE_TARGET = 'nki-lab:choose-target';

function activate(
  app: JupyterFrontEnd,
  sessions: INkiSessions,
  bar: IStatusBar | null,
  palette: ICommandPalette | null
): void {
  const { commands } = app;
  const targets = () => sessions.current?.status?.targets ?? [];
  commands.addCommand(CHOOSE_TARGET, {
    label: ({ name }) => (name ? String(name) : 'NKI: Next Target'),
    caption: ({ name }) => `Compile for ${name ?? 'the next chip'} from now on`,
    isEnabled: () => sessions.current?.state === 'loaded',
    isToggled: ({ name }) => name !== undefined && sessions.current?.status?.target === name,
    execute: ({ name }) => {
      const all = targets();
      const next = all[(all.indexOf(sessions.current?.status?.target ?? '') + 1) % all.length];
      sessions.current?.chooseTarget(String(name ?? next));
    }
  });
  palette?.addItem({ command: CHOOSE_TARGET, category: 'NKI' });
  if (!bar) {
    return;
  }

  const choose = button('', () => open(), { class: 'nki-status', 'aria-haspopup': 'menu' });
  const item = new Widget();
  item.addClass('nki-status-item');
  item.node.append(choose);
  const open = () => {
    const menu = new MenuSvg({ commands }); // with JupyterLab's sign at what is chosen
    menu.title.label = 'Target';
    targets().forEach(name => menu.addItem({ command: CHOOSE_TARGET, args: { name } }));
    // The command that an item stands for runs after the menu has closed.
    menu.aboutToClose.connect(() => setTimeout(() => (menu.dispose(), choose.focus())));
    const { left, top } = choose.getBoundingClientRect();
    menu.open(left, top);
    menu.activeIndex = targets().indexOf(sessions.current?.status?.target ?? '');
  };
  const update = () => {
    const target = sessions.current?.status?.target;
    choose.textContent = `NKI: ${target || 'no chip'}`;
    choose.setAttribute('aria-label', `NKI target ${target || 'unknown'}, simulator; choose another`);
    choose.title = 'Chip that kernels of this notebook are compiled for';
  };
  const changed = new Signal<Widget, void>(item);
  sessions.currentChanged.connect(() => {
    update();
    changed.emit();
  });
  update();
  bar.registerStatusItem('nki-lab:target', {
    item,
    align: 'left',
    rank: 50,
    isActive: () => sessions.current?.state === 'loaded',
    activeStateChanged: changed
  });
}

export const status: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:status',
  description: 'Shows the chip of the current notebook in the status bar, and changes it.',
  autoStart: true,
  requires: [INkiSessions],
  optional: [IStatusBar, ICommandPalette],
  activate
};
