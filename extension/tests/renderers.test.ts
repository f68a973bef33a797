/**
 * @jest-environment jsdom
 *
 * Which files open in views by themselves, which only when asked, and what happens without our server?
 */

import { afterEach, expect, test } from '@jest/globals';
import { JupyterFrontEnd } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { FACTORY, renderers } from '../src/renderers';

/** Activates the plugin in a Lab of which only the document registry is looked at. */
function registry(serverMakesPages: boolean): DocumentRegistry {
  PageConfig.setOption('nkiLabPages', serverMakesPages ? 'true' : '');
  const docRegistry = new DocumentRegistry();
  const app = { docRegistry, serviceManager: {} } as unknown as JupyterFrontEnd;
  void renderers.activate(app, null, null, null);
  return docRegistry;
}

const opened = (found: DocumentRegistry, name: string) => found.defaultWidgetFactory(name)?.name;
const offered = (found: DocumentRegistry, name: string) =>
  found.preferredWidgetFactories(name).map(factory => factory.name);

afterEach(() => void PageConfig.setOption('nkiLabPages', ''));

test.each(['a.nkic', 'A.NKIC', 'a.b.profile.json', 'a.nki.json', 'a.pftrace', 'Instruction.parquet'])(
  '%s opens in views',
  name => {
    expect(opened(registry(true), name)).toBe(FACTORY);
  }
);

test.each(['run.json', 'package.json', 'profile.json', 'Instruction.csv'])(
  '%s stays what it was, and may be opened in views',
  name => {
    const found = registry(true);
    const types = found.getFileTypesForPath(name).map(type => type.name);
    expect(types).toEqual([name.endsWith('csv') ? 'csv' : 'json']);
    expect(offered(found, name)).toContain(FACTORY);
  }
);

test.each(['notes.txt', 'kernel.py', 'nkic', 'run.ipynb'])('%s has nothing to do with us', name => {
  expect(offered(registry(true), name)).not.toContain(FACTORY);
});

test('content stays on the server', () => {
  expect(registry(true).getModelFactory('nki-lab-file')).toMatchObject({ fileFormat: null });
});

test('nothing is added where the server makes no pages', () => {
  const found = registry(false);
  expect(offered(found, 'a.nkic')).toEqual([]);
  expect([...found.fileTypes()].map(type => type.name)).not.toContain('nki-kernel');
});
