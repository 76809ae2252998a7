// The timeline: one canvas as large as its visible part, redrawn completely at each change.

const deviceHeight = 26, linkHeight = 17, memoryHeight = 48, headHeight = 24, axisHeight = 26, between = 4;

// The last parts of an op's path that fit, since they tell most about it; at least two if the last one is "grad".
function shortened(name, fits) {
  if (name.length <= fits) return name;
  const parts = name.split('/'), least = /^(add_)?grad|^update$/.test(parts[parts.length - 1]) ? 2 : 1;
  while (parts.length > least && parts.join('/').length > fits) parts.shift();
  const text = parts.join('/');
  return text.length <= fits ? text : text.slice(0, fits - 1) + '…';
}

class View {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d', { alpha: false });
    this.from = 0;
    this.to = 1;
    this.rows = [];
    this.hover = this.chosen = this.range = null;
    this.dimmed = false;
    this.waiting = false;
    this.frames = 0;
  }

  setRun(run, showIdle) {
    this.run = run;
    this.end = Math.max(1, run.source.makespan_ns, run.beneath ? run.beneath.makespan_ns : 0);
    this.rows = [];
    let y = between;
    const add = (row) => { this.rows.push({ y, ...row }); y += row.height + between; };
    const section = (title, kind, height, lanes) => {
      if (!lanes.length) return;
      if (title) add({ head: title, height: headHeight });
      lanes.forEach((lane) => add({ lane, index: run.lanes.indexOf(lane), kind, height, source: lane.beneath ? run.beneath : run.source }));
    };
    for (const beneath of run.beneath ? [false, true] : [false]) {
      const own = run.lanes.filter((l) => Boolean(l.beneath) === beneath);
      const title = run.beneath ? (beneath ? run.beneath : run.source).label : '';
      section(title, 'device', deviceHeight, own.filter((l) => l.kind === 'device'));
      section('Links', 'link', linkHeight, own.filter((l) => l.kind !== 'device' && (showIdle || l.item.length || l.instants.item.length)));
    }
    // A measured run below has the memory of its prediction.
    const held = run.other && run.source.beneath !== data.runs.indexOf(run.beneath) ? [run, run.other] : [run];
    for (const { source, memory } of held) {
      add({ head: run.beneath ? `Memory, ${source.label}` : 'Memory', height: headHeight });
      memory.forEach((curve, device) => source.devices[device].images && add({ curve, device, kind: 'memory', height: memoryHeight, source }));
    }
    this.tall = y;
    // One scale for all devices: up to the largest capacity, or to the largest peak if capacities are far above it.
    const devices = held.flatMap(({ source }) => source.devices), peak = Math.max(1, ...devices.map((d) => d.peak_bytes));
    const capacity = Math.max(0, ...devices.map((d) => d.capacity_bytes || 0));
    this.memoryTop = (capacity && peak > 0.2 * capacity ? Math.max(peak, capacity) : peak) * 1.12;
    this.hover = this.chosen = null;
    this.rowOfLane = new Map(this.rows.filter((r) => r.lane).map((r) => [r.index, r]));
  }

  setColours(scheme) {
    this.scheme = scheme;
    this.inks = scheme.colours.map(inkOn);
    this.packed = scheme.colours.map(packed);
    for (const lane of this.run.lanes) {
      const colour = lane.kind === 'device' ? scheme.op : scheme.transfer;
      for (let j = 0; j < lane.item.length; ++j) lane.colour[j] = colour(opOf(lane, lane.item[j]), lane.run.graph);
    }
  }

  // Dims all spans for which `wanted` is false; null shows all.
  setShown(wanted) {
    this.dimmed = wanted !== null;
    for (const lane of this.run.lanes)
      for (let j = 0; j < lane.item.length; ++j) lane.shown[j] = wanted === null || wanted(lane, j) ? 1 : 0;
  }

  resize() {
    const box = byId('view'), width = box.clientWidth;
    const height = Math.min(this.tall + axisHeight, this.printing ? Infinity : Math.max(260, Math.round(innerHeight * 0.76)));
    const ratio = Math.min(3, devicePixelRatio || 1);
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = width + 'px';
    this.canvas.style.height = height + 'px';
    byId('tall').style.height = this.tall + axisHeight + 'px';
    const style = getComputedStyle(document.documentElement), value = (name) => style.getPropertyValue(name).trim();
    this.theme = Object.fromEntries(['card', 'ink', 'soft', 'line', 'lane', 'accent', 'bad'].map((n) => [n, value('--' + n)]));
    this.font = style.fontFamily;
    this.context.font = `11.5px ${this.font}`;
    this.letter = this.context.measureText('forward_backward_attention/MatMul_0123456789').width / 44;
    this.context.font = `12.5px ${this.font}`;
    const longest = Math.max(0, ...this.rows.filter((r) => r.lane).map((r) => this.context.measureText(r.lane.name).width));
    this.left = width < 700 ? 118 : Math.round(Math.min(Math.max(longest + 78, 190), 260));
    this.right = width - 18;
    this.draw();
  }

  x(time) { return this.left + (time - this.from) * (this.right - this.left) / (this.to - this.from); }
  time(x) { return this.from + (x - this.left) * (this.to - this.from) / (this.right - this.left); }

  setWindow(from, to) {
    const span = Math.min(this.end, Math.max(Math.min(this.end, 4), to - from));  // at most 4 ns deep
    const margin = this.end * 0.02;
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, -margin * (span / this.end)), this.end + margin * (span / this.end) - span);
    if (span >= this.end) this.from = 0;
    this.to = this.from + span;
    this.redraw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    this.drawRows();
    this.showHover();
    ++this.frames;
    if (this.onDraw) this.onDraw();
  }

  // Draws all rows if `whole`, else the visible ones.
  drawRows() {
    const c = this.context, theme = this.theme;
    this.scroll = this.whole ? 0 : byId('view').scrollTop;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.fillStyle = theme.card;
    c.fillRect(0, 0, this.width, this.height);
    c.textBaseline = 'middle';
    const ticks = this.ticks();
    c.save();
    c.beginPath();
    c.rect(0, axisHeight, this.width, this.height - axisHeight);
    c.clip();
    c.translate(0, axisHeight - this.scroll);
    for (const row of this.rows) {
      if (row.y + row.height < this.scroll || row.y > this.scroll + this.height) continue;
      if (row.head) this.drawHead(row);
      else this.drawRow(row, ticks);
    }
    if (this.showPath) this.drawPath();
    if (this.chosen) this.drawNeighbours();
    if (this.chosen) this.outlineChosen();
    c.restore();
    this.drawAxis(ticks);
    if (this.range) {
      const a = this.x(this.range[0]), b = this.x(this.range[1]);
      c.fillStyle = theme.accent;
      const rows = this.range[2], top = rows ? Math.max(axisHeight, rows[0] + axisHeight - this.scroll) : axisHeight;
      c.globalAlpha = 0.18;
      c.fillRect(Math.min(a, b), top, Math.abs(b - a), rows ? rows[1] + axisHeight - this.scroll - top : this.height);
      c.globalAlpha = 1;
    }
  }

  ticks() {
    const rough = (this.to - this.from) / Math.max(2, (this.right - this.left) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough * 0.999));
    const times = [];
    for (let t = Math.ceil(this.from / step - 1e-6) * step; t <= this.to + step * 1e-6; t += step) times.push(Math.abs(t) < step / 2 ? 0 : t);
    const [factor, unit] = timeUnits.reduce((best, u) => (this.end >= u[0] && step * 1000 >= u[0] ? u : best), timeUnits[0]);
    const places = Math.max(0, Math.ceil(-Math.log10(step / factor) - 1e-9));
    return { times, label: (t) => (t === 0 ? '0' : (t / factor).toFixed(places) + thin + unit) };
  }

  drawAxis(ticks) {
    const c = this.context;
    c.font = `11.5px ${this.font}`;
    c.fillStyle = this.theme.soft;
    for (const t of ticks.times) {
      const text = ticks.label(t), half = c.measureText(text).width / 2;
      c.textAlign = 'left';
      c.fillText(text, Math.min(Math.max(this.x(t) - half, this.left), this.width - 4 - 2 * half), axisHeight / 2);
    }
    c.fillStyle = this.theme.line;
    c.fillRect(this.left, axisHeight - 1, this.right - this.left, 1);
  }

  drawHead(row) {
    const c = this.context, middle = row.y + row.height / 2 + 2;
    this.label(row.head, middle, 'left', this.theme.soft, '600 12', this.right - 16);
    c.fillStyle = this.theme.line;
    const from = Math.max(this.left, 16 + c.measureText(row.head).width + 10);
    if (from < this.right) c.fillRect(from, middle, this.right - from, 1);
  }

  label(text, y, align, colour, size, room) {
    const c = this.context;
    c.font = `${size}px ${this.font}`;
    c.fillStyle = colour;
    let shown = text;
    if (c.measureText(text).width > room) {
      let keep = Math.floor(text.length * room / c.measureText(text).width) - 1;
      while (keep > 1 && c.measureText(text.slice(0, keep) + '…').width > room) --keep;
      shown = text.slice(0, Math.max(1, keep)) + '…';
    }
    c.textAlign = align;
    c.fillText(shown, align === 'left' ? 16 : this.left - 10, y);
  }

  drawRow(row, ticks) {
    const c = this.context, theme = this.theme, { y, height } = row;
    c.fillStyle = theme.lane;
    c.beginPath();
    c.roundRect(this.left, y, this.right - this.left, height, 3);
    c.fill();
    c.save();
    c.beginPath();
    c.rect(this.left, y, this.right - this.left, height);
    c.clip();
    c.fillStyle = theme.line;
    for (const t of ticks.times) c.fillRect(Math.round(this.x(t)), y, 1, height);
    if (row.kind === 'memory') this.drawMemory(row);
    else if (this.dimmed) {
      c.globalAlpha = 0.16;
      this.drawSpans(row, 0);
      c.globalAlpha = 1;
      this.drawSpans(row, 1);
    } else this.drawSpans(row, 1);
    c.restore();
    const middle = y + height / 2, device = row.source.devices[row.kind === 'memory' ? row.device : row.lane.device];
    if (row.kind === 'device') {
      const busy = this.width < 700 ? '' : formatPercent(device.busy_ns / Math.max(1, row.source.makespan_ns));
      this.label(row.lane.name, middle, 'left', theme.ink, 12.5, this.left - (busy ? 74 : 24));
      if (busy) this.label(busy, middle, 'right', theme.soft, 11.5, 60);
    } else if (row.kind === 'link') this.label(row.lane.name, middle, 'left', theme.soft, 11, this.left - 24);
    else {
      this.label(device.name, middle - 9, 'left', theme.ink, 12.5, this.left - 24);
      const over = device.capacity_bytes !== null && device.peak_bytes > device.capacity_bytes;
      const text = formatBytes(device.peak_bytes) + (device.capacity_bytes === null ? '' : ' of ' + formatBytes(device.capacity_bytes));
      this.label(text, middle + 8, 'left', over ? theme.bad : theme.soft, 11, this.left - 24);
    }
  }

  // The left and right end of a span, and its row; null if it is not visible.
  boxOf([index, j]) {
    const row = this.rowOfLane.get(index);
    if (!row) return null;
    const lane = row.lane, left = Math.max(this.left - 3, this.x(lane.start[j])), right = Math.min(this.right + 3, this.x(lane.end[j]));
    return right < this.left || left > this.right ? null : { left, wide: Math.max(2, right - left - 0.75), row };
  }

  outlineChosen() {
    const box = this.boxOf(this.chosen);
    if (!box) return;
    this.context.strokeStyle = this.theme.accent;
    this.context.lineWidth = 2;
    this.context.strokeRect(box.left, box.row.y - 0.5, box.wide, box.row.height + 1);
  }

  // Shows a frame around the span under the pointer. The frame is a separate element, so that nothing is redrawn.
  showHover() {
    const frame = byId('hover').style, box = this.hover && this.boxOf(this.hover), top = box && box.row.y + axisHeight - this.scroll;
    frame.display = box && top > axisHeight - 4 ? 'block' : 'none';
    if (frame.display === 'none') return;
    frame.transform = `translate(${box.left - 1}px, ${top - 1.5}px)`;
    frame.width = box.wide + 2 + 'px';
    frame.height = box.row.height + 3 + 'px';
  }

  memoryRun(row) { return row.source === this.run.source ? decodeRun(data.runs.indexOf(row.source)) : this.run.other; }

  // The rows between two heights of the canvas, from top to bottom; null, which means all, for a drag along one row.
  rowsBetween(y0, y1) {
    const inside = (y) => y - axisHeight + this.scroll, a = inside(Math.min(y0, y1)), b = inside(Math.max(y0, y1));
    const rows = this.rows.filter((row) => row.lane && row.y <= b && row.y + row.height >= a);
    if (rows.length < 2) return null;
    return [rows[0].y, rows[rows.length - 1].y + rows[rows.length - 1].height];
  }

  // The object at a point of the canvas: {row, lane, j}, {row, time} or null.
  at(x, y) {
    if (x < this.left || x > this.right || y < axisHeight) return null;
    const inside = y - axisHeight + this.scroll, row = this.rows.find((r) => inside >= r.y && inside <= r.y + r.height);
    if (!row || row.head) return null;
    const time = this.time(x);
    if (row.kind === 'memory') return { row, time };
    // The span at this time, or the nearest within three pixels.
    const { start, end } = row.lane, near = 3 * (this.to - this.from) / (this.right - this.left);
    let j = upperBound(end, time);
    if (j === start.length || start[j] > time) {
      const after = j < start.length ? start[j] - time : Infinity, before = j > 0 ? time - end[j - 1] : Infinity;
      if (Math.min(after, before) > near) return { row, time };
      if (before < after) --j;
    }
    return { row, time, j };
  }
}
