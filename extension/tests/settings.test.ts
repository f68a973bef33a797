/**
 * @jest-environment jsdom
 *
 * Do features see what the user has chosen, and the documented defaults where nothing is?
 */

import { describe, expect, jest, test } from '@jest/globals';
import { JupyterFrontEnd } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Signal } from '@lumino/signaling';
import schema from '../schema/settings.json';
import { DEFAULTS, INkiSettings, settings } from '../src/settings';

const APP = {} as JupyterFrontEnd;

/** A registry with one stored set of values, which `set` changes as JupyterLab's does. */
function registryOf(composite: Record<string, unknown>): ISettingRegistry {
  const stored = {
    composite,
    changed: new Signal<object, void>({}),
    set: async (name: string, value: unknown) => {
      stored.composite = { ...stored.composite, [name]: value };
      stored.changed.emit();
    }
  };
  return { load: async () => stored } as unknown as ISettingRegistry;
}

const loaded = () => new Promise(resolve => setTimeout(resolve));

test('the schema has the defaults that hold without it', () => {
  const defaults = Object.entries(schema.properties).map(([name, { default: value }]) => [name, value]);
  expect(Object.fromEntries(defaults)).toEqual(DEFAULTS);
});

describe('chosen', () => {
  test('is the default without a registry, and can be changed for the session', async () => {
    const found = await settings.activate(APP, null);
    expect(found.chosen).toEqual(DEFAULTS);
    await found.choose('defaultTarget', 'trn3');
    expect(found.chosen).toEqual({ ...DEFAULTS, defaultTarget: 'trn3' });
  });

  test('is what is stored, and listeners hear of it', async () => {
    const found = settings.activate(APP, registryOf({ hover: false })) as INkiSettings;
    const heard = jest.fn();
    found.changed.connect(heard);
    await loaded();
    expect(found.chosen).toEqual({ ...DEFAULTS, hover: false });
    expect(heard).toHaveBeenCalledTimes(1);

    await found.choose('checkOnSave', true);
    expect(found.chosen).toEqual({ ...DEFAULTS, hover: false, checkOnSave: true });
    expect(heard).toHaveBeenCalledTimes(2);
  });

  test('stays the default where the settings cannot be read', async () => {
    const warned = jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    const broken = { load: () => Promise.reject(new Error('no schema')) };
    const found = await settings.activate(APP, broken as unknown as ISettingRegistry);
    await loaded();
    expect(found.chosen).toEqual(DEFAULTS);
    expect(warned).toHaveBeenCalledTimes(1);
    warned.mockRestore();
  });
});
