/**
 * Where in the text of an editor is what the kernel speaks of?  Text in, offsets out: no editor.
 */

import { IFix, IRange } from './protocol.js';

export interface IOffsets {
  from: number;
  to: number;
}

export interface IChange extends IOffsets {
  insert: string;
}

/**
 * Returns where a range is, in UTF-16 units; null where its line has changed.
 *
 * Lines may have come or gone above it since: the nearest line with the same text is taken.
 */
export function locate(doc: string, range: IRange): IOffsets | null {
  const found = offsetsOf(doc, range);
  if (!found || found.to > found.from) {
    return found;
  }
  const { from } = found;
  // Something to see: the character, or the end of the line.
  return { from: Math.max(0, from - (doc[from] === undefined || doc[from] === '\n' ? 1 : 0)), to: Math.min(from + 1, doc.length) };
}

/** Returns the change of a fix; null where its line has changed. */
export function changeOf(doc: string, fix: IFix): IChange | null {
  const found = offsetsOf(doc, fix);
  return found && { ...found, insert: fix.insert };
}

function offsetsOf(doc: string, range: IRange): IOffsets | null {
  const lines = doc.split('\n');
  const shift = nearest(lines, range);
  if (shift === null) {
    return null;
  }
  return {
    from: offset(lines, range.line - 1 + shift, range.column),
    to: offset(lines, range.endLine - 1 + shift, range.endColumn)
  };
}

function nearest(lines: string[], range: IRange): number | null {
  for (let away = 0; away < lines.length; away++) {
    for (const shift of away ? [away, -away] : [0]) {
      const line = lines[range.line - 1 + shift];
      // Blanks around the line of a magic are not kept.
      if (line !== undefined && line.trim() === range.text.trim()) {
        return shift;
      }
    }
  }
  return null;
}

function offset(lines: string[], line: number, column: number): number {
  const at = Math.min(Math.max(line, 0), lines.length - 1);
  const before = lines.slice(0, at).reduce((sum, text) => sum + text.length + 1, 0);
  return before + [...lines[at]].slice(0, column).join('').length;
}
