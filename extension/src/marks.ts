/**
 * Which marks does each cell of a notebook have?  Those of the last run or check of each cell.
 */

import { ByCell, IMark } from './protocol.js';

export class Marks {
  /**
   * Takes what running or checking a cell brought to light, instead of what it did before.
   *
   * The cell itself is as it was then: what others had found in it is of an older text.
   *
   * @returns the cells whose marks have changed.
   */
  update(origin: string, cells: ByCell): Set<string> {
    const changed = new Set<string>();
    for (const [cell, origins] of this._cells) {
      if (origins.delete(origin) || (cell === origin && origins.size)) {
        changed.add(cell);
      }
      if (cell === origin) {
        origins.clear();
      }
    }
    for (const [cell, marks] of Object.entries(cells)) {
      if (marks.length) {
        let origins = this._cells.get(cell);
        if (!origins) {
          this._cells.set(cell, (origins = new Map()));
        }
        origins.set(origin, marks);
        changed.add(cell);
      }
    }
    return changed;
  }

  /** Takes one mark away; tells whether it was there. */
  drop(cell: string, mark: IMark): boolean {
    for (const [origin, marks] of this._cells.get(cell) ?? []) {
      if (marks.includes(mark)) {
        this._cells.get(cell)!.set(origin, marks.filter(other => other !== mark));
        return true;
      }
    }
    return false;
  }

  /** Returns the marks of a cell, each once, in the order of its lines. */
  of(cell: string): IMark[] {
    const found = new Map<string, IMark>();
    for (const marks of this._cells.get(cell)?.values() ?? []) {
      for (const mark of marks) {
        const { line, column, code, message } = mark;
        const key = JSON.stringify([line, column, code, message]);
        if (!found.has(key)) {
          found.set(key, mark);
        }
      }
    }
    return [...found.values()].sort((a, b) => a.line - b.line || a.column - b.column);
  }

  /** Takes all marks away; returns the cells that had some. */
  clear(): Set<string> {
    const cells = new Set(this._cells.keys());
    this._cells.clear();
    return cells;
  }

  // Cell -> origin -> marks.
  private _cells = new Map<string, Map<string, IMark[]>>();
}
