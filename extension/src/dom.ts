/**
 * How are elements made?  Text is always text: what users and kernels name things is never read as HTML.
 */

type Child = Node | string;

/** Returns an element with attributes (`class`, `aria-label`, ...), and children or text. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Returns a button that does something; `attributes` as of an element. */
export function button(
  label: string | Child[],
  act: () => void,
  attributes: Record<string, string> = {}
): HTMLButtonElement {
  const children = typeof label === 'string' ? [label] : label;
  const made = element('button', { type: 'button', class: 'nki-button', ...attributes }, ...children);
  made.addEventListener('click', act);
  return made;
}
