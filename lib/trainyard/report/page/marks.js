// The legend of the timeline: its visible marks, each with a picture, for the page and for SVG files.

// Marks as {text, draw}; a picture has 24 by 12 pixels.
function timelineMarks(view) {
  const { theme, run } = view, held = view.rows.filter((row) => row.kind === 'memory'), marks = [];
  const add = (wanted, text, draw) => { if (wanted) marks.push({ text, draw }); };
  const curve = (c, colour, width) => {
    c.beginPath();
    c.moveTo(1, 10);
    c.bezierCurveTo(10, 10, 12, 2, 23, 2);
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.stroke();
  };
  const line = (c, colour, width, dash, y = 6) => {
    c.setLineDash(dash);
    c.beginPath();
    c.moveTo(1, y);
    c.lineTo(23, y);
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.stroke();
    c.setLineDash([]);
  };
  const outline = (c, colour) => { c.strokeStyle = colour; c.lineWidth = 2; c.strokeRect(5, 1.5, 14, 9); };
  add(run.lanes.some((lane) => lane.instants.item.length), 'takes no time', (c) => {
    c.fillStyle = theme.soft;
    c.beginPath();
    c.moveTo(9, 10);
    c.lineTo(15, 10);
    c.lineTo(12, 3);
    c.fill();
  });
  add(true, 'paler: short spans with gaps between them', (c) => {
    c.fillStyle = view.scheme.colours[0];
    [0.3, 0.5, 0.9, 0.4].forEach((alpha, i) => { c.globalAlpha = alpha; c.fillRect(4 + 4 * i, 1, 4, 10); });
    c.globalAlpha = 1;
  });
  add(view.width >= 700, 'share of the step that the device works', (c) => { c.fillStyle = theme.soft; c.font = `11px ${view.font}`; c.textAlign = 'left'; c.textBaseline = 'middle'; c.fillText('%', 8, 6.5); });
  add(view.showPath, 'critical path, from one row to the next', (c) => curve(c, theme.ink, 1.1));
  add(view.chosen, 'the chosen span', (c) => outline(c, theme.accent));
  add(view.chosen && run.lanes[view.chosen[0]].kind === 'device', 'what it waits for', (c) => curve(c, theme.accent, 2));
  add(view.chosen && run.lanes[view.chosen[0]].kind === 'device', 'what waits for it', (c) => curve(c, theme.accent, 1));
  add(held.length, 'memory held', (c) => {
    c.globalAlpha = 0.3;
    c.fillStyle = theme.accent;
    c.fillRect(1, 3, 22, 8);
    c.globalAlpha = 1;
    line(c, theme.accent, 1.25, [], 3);
  });
  add(held.length, 'its peak', (c) => { c.fillStyle = theme.accent; c.beginPath(); c.arc(12, 6, 3, 0, 7); c.fill(); });
  add(held.some((row) => (row.source.devices[row.device].capacity_bytes ?? Infinity) <= view.memoryTop), 'capacity of the device', (c) => line(c, theme.bad, 1, [5, 4]));
  add(held.some(({ source, device }) => source.devices[device].capacity_bytes !== null && source.devices[device].peak_bytes > source.devices[device].capacity_bytes), 'more than it has', (c) => {
    c.globalAlpha = 0.55;
    c.fillStyle = theme.bad;
    c.fillRect(1, 2, 22, 9);
    c.globalAlpha = 1;
  });
  add(view.from > 0 || view.to < view.end, 'in the strip above: what is shown below', (c) => outline(c, theme.accent));
  return marks;
}

function showMarks(view) {
  const marks = timelineMarks(view), key = marks.map(({ text }) => text).join() + document.documentElement.dataset.theme + view.scheme.colours[0];
  if (view.marksKey === key) return;
  view.marksKey = key;
  byId('marks').replaceChildren(...marks.map(({ text, draw }) => {
    const svg = new SvgContext(view.canvas, 24, 12);
    draw(svg);
    const picture = new DOMParser().parseFromString(svg.text(), 'image/svg+xml').documentElement;
    picture.setAttribute('aria-hidden', 'true');
    return element('span', { class: 'note' }, picture, text);
  }));
}
