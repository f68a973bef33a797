/**
 * What does nki_lab add to JupyterLab?  A list: each feature lives in a file of its own.
 */

import { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { highlight } from './highlight.js';
import { progress } from './progress.js';
import { settings } from './settings.js';

// Some provide something for others: of all types.
const plugins: JupyterFrontEndPlugin<any>[] = [settings, highlight, progress];

export default plugins;
