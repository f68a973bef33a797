/**
 * How does a mark look in an editor?  A squiggle, a sign in the gutter, and its message with changes to apply.
 */

import { Action, Diagnostic, forEachDiagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { Compartment, Extension } from '@codemirror/state';
import { EditorView, ViewPlugin, ViewUpdate } from '@codemirror/view';
import { changeOf, locate } from './positions.js';
import { IFix, IMark } from './protocol.js';

/** A diagnostic of ours: others may have some in the same editor. */
interface IOurs extends Diagnostic {
  mark: IMark;
}

/** What becomes of a mark whose text was changed. */
export type Drop = (view: EditorView, mark: IMark) => void;

// There is no gutter where nothing is marked, so that other cells look as ever.
const gutter = new Compartment();

/** Shows these marks in an editor, instead of those it has from us. */
export function show(view: EditorView, marks: IMark[], drop: Drop): void {
  const doc = view.state.doc.toString();
  const ours: IOurs[] = [];
  for (const mark of marks) {
    const place = locate(doc, mark);
    if (place) {
      const actions = mark.fixes.map(fix => actionOf(fix, mark, drop));
      ours.push({
        ...place,
        mark,
        severity: mark.severity,
        source: `nki_lab ${mark.code}`,
        message: messageOf(mark),
        renderMessage: () => rendered(mark),
        actions
      });
    }
  }
  replace(view, ours);
}

function replace(view: EditorView, ours: IOurs[]): void {
  const others: Diagnostic[] = [];
  forEachDiagnostic(view.state, (diagnostic, from, to) => {
    if (!isOurs(diagnostic)) {
      others.push({ ...diagnostic, from, to });
    }
  });
  const all = [...others, ...ours];
  const effects = gutter.get(view.state) === undefined ? [] : [gutter.reconfigure(ours.length ? lintGutter() : [])];
  view.dispatch({ effects }, setDiagnostics(view.state, all));
}

/** Returns our marks in an editor with where they are now, in the order of the text. */
export function shown(view: EditorView): { from: number; to: number; mark: IMark }[] {
  const found: { from: number; to: number; mark: IMark }[] = [];
  forEachDiagnostic(view.state, (diagnostic, from, to) => {
    if (isOurs(diagnostic)) {
      found.push({ from, to, mark: diagnostic.mark });
    }
  });
  return found.sort((a, b) => a.from - b.from);
}

function isOurs(diagnostic: Diagnostic): diagnostic is IOurs {
  return 'mark' in diagnostic && 'fixes' in (diagnostic as IOurs).mark;
}

/** Takes marks out of an editor; the others stay where they have moved to. */
export function take(view: EditorView, gone: Set<IMark>): void {
  const left: IOurs[] = [];
  forEachDiagnostic(view.state, (diagnostic, from, to) => {
    if (isOurs(diagnostic) && !gone.has(diagnostic.mark)) {
      left.push({ ...diagnostic, from, to });
    }
  });
  replace(view, left);
}

/** Carries a fix out, and takes its mark away; false where its line has changed. */
export function apply(view: EditorView, fix: IFix, mark: IMark, drop: Drop): boolean {
  const change = changeOf(view.state.doc.toString(), fix);
  if (!change) {
    return false;
  }
  view.dispatch({ changes: change, userEvent: 'input.complete', scrollIntoView: true });
  take(view, new Set([mark]));
  drop(view, mark);
  return true;
}

function actionOf(fix: IFix, mark: IMark, drop: Drop): Action {
  return { name: fix.title.replace(/`/g, ''), apply: view => void apply(view, fix, mark, drop) };
}

/** The message with all that is known, as plain text: for screen readers and the list of marks. */
export function messageOf(mark: IMark): string {
  const notes = mark.notes.map(note => `note: ${note}`);
  return [headOf(mark), ...notes, ...(mark.help ? [`help: ${mark.help}`] : [])].join('\n');
}

function headOf(mark: IMark): string {
  return `${mark.severity}[${mark.code}]: ${mark.message}`;
}

function rendered(mark: IMark): Node {
  const node = document.createElement('div');
  node.className = 'nki-message';
  const add = (kind: string, text: string) => {
    const line = document.createElement('div');
    line.className = `nki-message-${kind}`;
    line.textContent = text;
    node.append(line);
  };
  add('head', headOf(mark));
  mark.notes.forEach(note => add('note', `note: ${note}`));
  if (mark.help) {
    add('help', `help: ${mark.help}`);
  }
  return node;
}

/**
 * Returns the part of an editor that marks need.
 *
 * @param born is told of each editor, and returns what is to be done when it is gone.
 * @param drop is told of marks whose text has been changed by hand.
 */
export function squiggles(born: (view: EditorView) => () => void, drop: Drop): Extension {
  const plugin = ViewPlugin.fromClass(
    class {
      constructor(view: EditorView) {
        this._gone = born(view);
      }

      update(update: ViewUpdate): void {
        if (!update.docChanged) {
          return;
        }
        const touched = new Set<IMark>();
        forEachDiagnostic(update.startState, (diagnostic, from, to) => {
          if (isOurs(diagnostic) && update.changes.touchesRange(from, to)) {
            touched.add(diagnostic.mark);
          }
        });
        if (touched.size) {
          // An update cannot make another one.
          queueMicrotask(() => {
            take(update.view, touched);
            touched.forEach(mark => drop(update.view, mark));
          });
        }
      }

      destroy(): void {
        this._gone();
      }

      private _gone: () => void;
    }
  );
  return [gutter.of([]), plugin];
}
