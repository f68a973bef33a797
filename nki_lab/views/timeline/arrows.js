// Draws dependences and the critical path as arrows between events.

const MOST_STEPS = 300;
/** Line of each kind of dependence: values handed over are solid. */
const DASHES = { anti: [5, 3], output: [1.5, 2.5], "place used again": [5, 3] };

/** Return the lane of an event. */
export function laneOf(events, i) {
  let a = 0;
  let b = events.lanes.length - 1;
  while (a < b) {
    const m = (a + b + 1) >> 1;
    if (events.lanes[m].lo <= i) a = m;
    else b = m - 1;
  }
  while (events.lanes[a].hi <= i) a++; // lanes without events begin where the next one does
  return a;
}

/** Paint arrows from and to the chosen event, and along the critical path where it stands out. */
export function paintArrows(pen, view, columns) {
  const { events, theme, range } = view;
  if (!events) return;
  pen.save();
  pen.beginPath();
  pen.rect(view.left, 0, columns, view.height);
  pen.clip();
  if (view.path && view.focus === view.path.focus) {
    const { steps } = view.path;
    const shown = [];
    for (let k = 1; k < steps.length && shown.length <= MOST_STEPS; k++) {
      const [a, b] = [steps[k - 1], steps[k]];
      if (events.start[b] >= range.lo && events.start[a] + events.duration[a] <= range.hi && !view.path.begins.has(k)) shown.push([a, b]);
    }
    if (shown.length <= MOST_STEPS) shown.forEach(([a, b]) => arrow(pen, view, columns, a, b, theme.now.limit, [], 1.6));
  }
  for (const [other, kind] of view.needs || []) arrow(pen, view, columns, other, view.chosen, theme.now.ink, DASHES[kind] || [], 1.3);
  for (const [other, kind] of view.feeds || []) arrow(pen, view, columns, view.chosen, other, theme.now.faint, DASHES[kind] || [], 1.3);
  pen.restore();
}

function arrow(pen, view, columns, from, to, colour, dash, width) {
  const { events, rows, left, range } = view;
  const x = (t) => left + Math.max(-0.2, Math.min(1.2, range.share(t))) * columns;
  const y = (i) => {
    const row = rows[laneOf(events, i)];
    return row.y + row.height / 2;
  };
  const [x0, y0, x1, y1] = [x(events.start[from] + events.duration[from]), y(from), x(events.start[to]), y(to)];
  const bend = Math.max(12, Math.abs(x1 - x0) / 2);
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  pen.stroke();
  pen.setLineDash([]);
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x1 - 6, y1 - 3.5);
  pen.lineTo(x1 - 6, y1 + 3.5);
  pen.fill();
}
