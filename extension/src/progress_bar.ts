/**
 * What does a cell show of its work?
 */

import { Widget } from '@lumino/widgets';

/** What is shown in a cell: how far its work is, and a button that stops it. */
export class ProgressBar extends Widget {
  /** `stop` is called when the button is pressed. */
  constructor(stop: () => void) {
    super();
    this.addClass('nki-progress');
    this._bar = document.createElement('progress');
    this._bar.setAttribute('aria-label', 'How far the cell is');
    this._text = document.createElement('span');
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Stop';
    button.title = 'Interrupt the kernel of this notebook';
    button.addEventListener('click', () => {
      button.disabled = true;
      button.textContent = 'Stopping…';
      stop();
    });
    this.node.append(this._bar, this._text, button);
  }

  /** Shows how far the work is, from 0 to 1 where that is known, and what is being done. */
  tell(fraction: number | null, text: string): void {
    if (fraction === null) {
      this._bar.removeAttribute('value');
      this._text.textContent = text;
    } else {
      this._bar.value = fraction;
      this._text.textContent = `${text} ${Math.round(100 * fraction)} %`;
    }
  }

  private readonly _bar: HTMLProgressElement;
  private readonly _text: HTMLSpanElement;
}
