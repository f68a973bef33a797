/**
 * How does a card look?  Elements only; what stands in a cell stays text.
 */

import { ICard, ISection } from './describe.js';
import { element } from './dom.js';

/** Returns the elements of a card. */
export function cardOf(card: ICard): HTMLElement {
  return element(
    'div',
    { class: 'nki-card', role: 'tooltip' },
    element('code', { class: 'nki-card-title' }, card.title),
    ...(card.doc ? [element('p', {}, ...marked(card.doc))] : []),
    ...card.sections.map(section),
    element('footer', {}, 'All of it, with sources: ', element('code', {}, `%nki_explain ${card.topic}`))
  );
}

function section({ title, rows, long }: ISection): HTMLElement {
  const body = rows.some(row => row.length > 1)
    ? element('table', {}, element('tbody', {}, ...rows.map(tableRow)))
    : element('ul', {}, ...rows.map(([text]) => element('li', {}, ...marked(text))));
  return long
    ? element('details', {}, element('summary', {}, `${title} (${rows.length})`), body)
    : element('section', {}, element('h4', {}, title), body);
}

function tableRow([head, ...cells]: string[]): HTMLElement {
  return element(
    'tr',
    {},
    element('th', { scope: 'row' }, head),
    ...cells.map(text => element('td', {}, ...marked(text)))
  );
}

/** Returns a sentence in which what stands in backquotes is code. */
function marked(text: string): (Node | string)[] {
  return text.split('`').map((part, i) => (i % 2 ? element('code', {}, part) : part));
}
