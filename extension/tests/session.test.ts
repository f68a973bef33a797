/**
 * @jest-environment jsdom
 *
 * Does a session know what its kernel says, when it has ended, and when it was there before the page?
 */

import { describe, expect, jest, test } from '@jest/globals';
import { NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { IStatus } from '../src/protocol';
import { Session } from '../src/session';

const STATUS: IStatus = {
  kind: 'status',
  version: '1',
  target: 'trn2',
  targets: ['trn1', 'trn2'],
  backend: 'simulator',
  runs: []
};

type Said = Record<string, unknown>;

class Comm {
  isDisposed = false;
  onMsg: ((message: unknown) => void) | undefined;
  onClose: (() => void) | undefined;
  sent: Said[] = [];

  send(message: Said): void {
    this.sent.push(message);
  }

  say(data: unknown): void {
    this.onMsg!({ content: { data } });
  }
}

/** A kernel that has loaded nki_lab already where `ids` names a comm. */
class FakeKernel {
  isDisposed = false;
  info = Promise.resolve({});
  comm = new Comm();
  private _target: ((comm: Comm, message: unknown) => void) | undefined;

  constructor(private _ids: string[] = []) {}

  registerCommTarget(name: string, target: (comm: Comm, message: unknown) => void): void {
    expect(name).toBe('nki-lab');
    this._target = target;
  }

  async requestCommInfo(): Promise<unknown> {
    const comms = Object.fromEntries(this._ids.map(id => [id, { target_name: 'nki-lab' }]));
    return { content: { status: 'ok', comms } };
  }

  hasComm = () => false;
  createComm = () => this.comm;

  open(protocol = 1): Comm {
    this.comm = new Comm();
    this._target!(this.comm, { content: { data: { protocol } } });
    return this.comm;
  }
}

function panelOf(kernel: FakeKernel | null) {
  const context = {
    session: { kernel },
    kernelChanged: new Signal<object, { newValue: FakeKernel | null }>({}),
    statusChanged: new Signal<object, string>({})
  };
  return { context, session: new Session({ sessionContext: context } as unknown as NotebookPanel) };
}

const settled = () => new Promise(resolve => setTimeout(resolve));

describe('state', () => {
  test('is that of the kernel from start to end', () => {
    const kernel = new FakeKernel();
    const { context, session } = panelOf(kernel);
    const heard = jest.fn();
    session.changed.connect(heard);
    expect(session.state).toBe('unloaded');
    kernel.open().say(STATUS);
    expect([session.state, session.status!.target]).toEqual(['loaded', 'trn2']);
    expect(heard).toHaveBeenCalledTimes(1);

    context.statusChanged.emit('restarting');
    expect([session.state, session.status]).toEqual(['restarted', null]);
    context.statusChanged.emit('autorestarting');
    expect(session.state).toBe('restarted');
    kernel.open().say(STATUS);
    expect(session.state).toBe('loaded');
    context.kernelChanged.emit({ newValue: null });
    expect(session.state).toBe('none');
  });

  test('of a kernel that was never loaded is not that of one that has lost something', () => {
    const { context, session } = panelOf(new FakeKernel());
    context.statusChanged.emit('restarting');
    expect(session.state).toBe('unloaded');
    expect(panelOf(null).session.state).toBe('none');
  });

  test('of another protocol is told', () => {
    const kernel = new FakeKernel();
    const { session } = panelOf(kernel);
    kernel.open(2);
    expect(session.state).toBe('other');
  });

  test('after a reload is asked for', async () => {
    const kernel = new FakeKernel(['x']);
    const { session } = panelOf(kernel);
    await settled();
    expect(kernel.comm.sent).toEqual([{ kind: 'hello' }]);
    kernel.comm.say(STATUS);
    expect(session.state).toBe('loaded');
  });
});

describe('marks', () => {
  const mark = { line: 1, column: 0, endLine: 1, endColumn: 1, text: 'x', code: 'c', message: 'm' };

  test('come with runs, and go with the kernel', () => {
    const kernel = new FakeKernel();
    const { context, session } = panelOf(kernel);
    const heard: string[][] = [];
    session.marked.connect((_, cells) => heard.push([...cells]));
    const comm = kernel.open();
    comm.say(STATUS);
    comm.say({ kind: 'diagnostics', origin: 'a', cells: { a: [mark] } });
    comm.say({ kind: 'diagnostics', origin: 'b', cells: { b: [] } });
    expect(session.marks.of('a')).toHaveLength(1);
    context.statusChanged.emit('restarting');
    expect(session.marks.of('a')).toEqual([]);
    expect(heard).toEqual([['a'], ['a']]);
  });
});

describe('check', () => {
  test('is answered by its number, in whatever order', async () => {
    const kernel = new FakeKernel();
    const { session } = panelOf(kernel);
    const comm = kernel.open();
    comm.say(STATUS);
    const first = session.check('a', 'text a');
    const second = session.check('b', 'text b');
    expect(comm.sent).toEqual([
      { kind: 'check', id: 1, cell: 'a', text: 'text a' },
      { kind: 'check', id: 2, cell: 'b', text: 'text b' }
    ]);
    const answer = { kind: 'checked', cells: {}, compiled: true, unseen: '' };
    comm.say({ ...answer, id: 2, origin: 'b' });
    comm.say({ ...answer, id: 1, origin: 'a' });
    expect([(await first)!.origin, (await second)!.origin]).toEqual(['a', 'b']);
  });

  test('is given up where there is nobody to answer, or no more', async () => {
    const kernel = new FakeKernel();
    const { context, session } = panelOf(kernel);
    expect(await session.check('a', '')).toBeNull();
    kernel.open().say(STATUS);
    const asked = session.check('a', '');
    context.statusChanged.emit('dead');
    expect(await asked).toBeNull();
  });
});

test('a target is chosen by the kernel', () => {
  const kernel = new FakeKernel();
  const { session } = panelOf(kernel);
  const comm = kernel.open();
  comm.say(STATUS);
  session.chooseTarget('trn1');
  expect(comm.sent).toEqual([{ kind: 'target', name: 'trn1' }]);
  expect(session.status!.target).toBe('trn2');
});
