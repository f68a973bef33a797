/**
 * Which sign stands for NKI?  A chip with its pins, in the colours of the theme.
 */

import { LabIcon } from '@jupyterlab/ui-components';

export const nkiIcon = new LabIcon({
  name: 'nki-lab:chip',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M6 6h12v12H6zm2 2v8h8V8z" fill-rule="evenodd"/>
    <path d="M10 10h4v4h-4z"/>
    <path d="M8 2h2v3H8zm3 0h2v3h-2zm3 0h2v3h-2zM8 19h2v3H8zm3 0h2v3h-2zm3 0h2v3h-2zM2 8h3v2H2zm0 3h3v2H2zm0 3h3v2H2zM19 8h3v2h-3zm0 3h3v2h-3zm0 3h3v2h-3z"/>
  </g>
</svg>`
});
