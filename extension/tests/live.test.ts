/**
 * @jest-environment jsdom
 *
 * Tests that an output shows its live view while the kernel holds it, and its stored forms otherwise.
 */

import { beforeEach, describe, expect, jest, test } from '@jest/globals';
import { IRenderMime, IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
import { HINT, IKernelOf, LIVE, LiveOutput } from '../src/live';

const VIEW = 'application/vnd.jupyter.widget-view+json';
const DATA = {
  [LIVE]: {},
  [VIEW]: { model_id: 'one' },
  'text/html': '<img alt="a run">',
  'text/plain': 'a run'
};

/** A kernel that holds the views in `held`. */
class Kernel implements IKernelOf {
  held = new Set<string>();
  looks = new Set<() => void>();

  holds = (id: string) => this.held.has(id);
  watch(look: () => void): () => void {
    this.looks.add(look);
    return () => this.looks.delete(look);
  }
  changed(): void {
    this.looks.forEach(look => look());
  }
}

/** Renders a type as its name; the renderer of widgets gets its view when `appear` is called. */
class Renderers {
  widgets: Widget[] = [];
  given: IRenderMime.IMimeModel[] = [];

  createRenderer(type: string): IRenderMime.IRenderer {
    const widget = new Widget() as Widget & IRenderMime.IRenderer;
    widget.renderModel = async model => {
      widget.node.textContent = type === VIEW ? 'Loading' : `${type} ${model.trusted}`;
      this.given.push(model);
    };
    if (type === VIEW) {
      this.widgets.push(widget);
    }
    return widget;
  }

  preferredMimeType(data: object): string | undefined {
    return ['text/html', 'text/plain'].find(type => type in data);
  }

  /** Shows the view of the last renderer of widgets, as the manager of widgets does some time later. */
  async appear(): Promise<void> {
    this.widgets.at(-1)!.node.replaceChildren(document.createElement('b'));
    await Promise.resolve();
  }
}

describe('an output', () => {
  let kernel: Kernel;
  let renderers: Renderers;
  let output: LiveOutput;

  beforeEach(() => {
    jest.useFakeTimers();
    kernel = new Kernel();
    renderers = new Renderers();
    output = new LiveOutput(kernel, renderers as unknown as IRenderMimeRegistry);
  });

  const render = (trusted = true) => output.renderModel(new MimeModel({ data: DATA, trusted }));
  const seen = () => output.widgets.filter(widget => !widget.isHidden).map(({ node }) => node.textContent);
  const STORED = `${HINT}text/html trueTexta run`;

  test('shows what is stored where no kernel holds the view', async () => {
    await render();
    expect(seen()).toEqual([STORED]);
    expect(renderers.widgets).toEqual([]);
  });

  test('shows the view of a kernel, and nothing before it', async () => {
    kernel.held.add('one');
    await render();
    expect(seen()).toEqual([]);
    await renderers.appear();
    expect(seen()).toEqual(['']);
    jest.runAllTimers();
    expect(seen()).toEqual(['']);
  });

  test('shows what is stored where the view does not appear, until it does', async () => {
    kernel.held.add('one');
    await render();
    jest.runAllTimers();
    expect(seen()).toEqual([STORED]);
    await renderers.appear();
    expect(seen()).toEqual(['']);
  });

  test('follows its kernel', async () => {
    await render();
    kernel.held.add('one');
    kernel.changed();
    await renderers.appear();
    expect(seen()).toEqual(['']);
    kernel.held.clear();
    kernel.changed();
    expect(seen()).toEqual([STORED]);
    expect(renderers.widgets[0].isDisposed).toBe(true);
  });

  test('is not asked for its view where nobody trusts the notebook', async () => {
    kernel.held.add('one');
    await render(false);
    expect(seen()).toEqual([`${HINT}text/html falseTexta run`]);
    expect(renderers.widgets).toEqual([]);
  });

  test('keeps its data, whatever the renderer of widgets writes into it', async () => {
    kernel.held.add('one');
    await render();
    (renderers.given[0].data[VIEW] as { model_id: string }).model_id = '';
    expect(DATA[VIEW].model_id).toBe('one');
  });

  test('is quiet once it is gone', async () => {
    kernel.held.add('one');
    await render();
    output.dispose();
    jest.runAllTimers();
    expect(kernel.looks.size).toBe(0);
    expect(renderers.widgets[0].isDisposed).toBe(true);
  });
});
