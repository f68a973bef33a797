/**
 * What has the user chosen in the settings?  Every feature reads it here; schema/settings.json explains it.
 */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

export interface IChoices {
  completion: boolean;
  hover: boolean;
  checkOnSave: boolean;
  /** Name of a target; empty for what the session or the environment says. */
  defaultTarget: string;
}

/** What holds until the settings have been read, and where there are none. */
export const DEFAULTS: Readonly<IChoices> = {
  completion: true,
  hover: true,
  checkOnSave: false,
  defaultTarget: ''
};

export interface INkiSettings {
  /** What is chosen now. */
  readonly chosen: Readonly<IChoices>;
  /** Emitted when `chosen` has changed. */
  readonly changed: ISignal<INkiSettings, void>;
  /** Changes one of them, for this session and later ones. */
  choose<K extends keyof IChoices>(name: K, value: IChoices[K]): Promise<void>;
}

export const INkiSettings = new Token<INkiSettings>(
  'nki-lab:INkiSettings',
  'What the user has chosen for NKI cells.'
);

const ID = 'nki-lab:settings';

class Settings implements INkiSettings {
  chosen: Readonly<IChoices> = DEFAULTS;
  readonly changed: Signal<INkiSettings, void> = new Signal(this);
  private _stored: ISettingRegistry.ISettings | null = null;

  async load(registry: ISettingRegistry): Promise<void> {
    this._stored = await registry.load(ID);
    this._stored.changed.connect(() => this._read());
    this._read();
  }

  async choose<K extends keyof IChoices>(name: K, value: IChoices[K]): Promise<void> {
    if (this._stored) {
      await this._stored.set(name, value);
    } else {
      this._change({ ...this.chosen, [name]: value });
    }
  }

  private _read(): void {
    this._change({ ...DEFAULTS, ...(this._stored?.composite as Partial<IChoices>) });
  }

  private _change(chosen: IChoices): void {
    this.chosen = chosen;
    this.changed.emit();
  }
}

export const settings: JupyterFrontEndPlugin<INkiSettings> = {
  id: ID,
  description: 'Keeps what the user has chosen for NKI cells.',
  autoStart: true,
  provides: INkiSettings,
  optional: [ISettingRegistry],
  activate: (_: JupyterFrontEnd, registry: ISettingRegistry | null): INkiSettings => {
    const settings = new Settings();
    // Not awaited: features start with the defaults and hear of what was chosen.
    if (registry) {
      settings.load(registry).catch(error => console.warn('nki_lab: settings not read:', error));
    }
    return settings;
  }
};
