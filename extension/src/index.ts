/**
 * What does nki_lab add to JupyterLab?  A list: each feature lives in a file of its own.
 */

import { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { completion } from './completion.js';
import { diagnostics } from './diagnostics.js';
import { highlight } from './highlight.js';
import { hover } from './hover.js';
import { live } from './live.js';
import { panel } from './panel.js';
import { progress } from './progress.js';
import { renderers } from './renderers.js';
import { sessions } from './sessions.js';
import { settings } from './settings.js';
import { start } from './start.js';
import { status } from './status.js';

// Some provide something for others: of all types.
const plugins: JupyterFrontEndPlugin<any>[] = [
  settings,
  sessions,
  highlight,
  completion,
  hover,
  start,
  progress,
  diagnostics,
  panel,
  status,
  renderers,
  live
];

export default plugins;
