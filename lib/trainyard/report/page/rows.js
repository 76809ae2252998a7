// How a row of the view is filled: spans, instants, memory; and the curves between rows.

Object.assign(View.prototype, {
  // Spans of at least 1.5 pixels as rectangles; narrower ones merge into one column per pixel, as opaque as the pixel
  // is covered, in the colour that covers most of it.
  drawSpans(row, shown) {
    const c = this.context, { lane, y, height } = row, { start, end, colour } = lane;
    const scale = (this.right - this.left) / (this.to - this.from), zero = this.left - this.from * scale;
    const first = upperBound(end, this.from), last = upperBound(start, this.to);
    const colours = this.scheme.colours, covered = new Float32Array(colours.length), base = c.globalAlpha;
    const texts = [];
    let pixel = -1, fill = -1;
    const paint = (k) => { if (fill !== k) c.fillStyle = colours[fill = k]; };
    const flush = () => {
      if (pixel < 0) return;
      let sum = 0, most = 0;
      for (let k = 0; k < covered.length; ++k) {
        sum += covered[k];
        if (covered[k] > covered[most]) most = k;
      }
      covered.fill(0);
      if (sum <= 0) return;
      paint(most);
      c.globalAlpha = base * Math.min(1, (this.dimmed && shown ? 0.6 : 0.25) + 0.75 * sum);
      c.fillRect(pixel, y, 1, height);
      c.globalAlpha = base;
    };
    for (let j = first; j < last; ++j) {
      if (lane.shown[j] !== shown) continue;
      const a = start[j] * scale + zero, b = end[j] * scale + zero, wide = b - a;
      if (wide >= 1.5) {
        const left = Math.max(a, this.left - 4), right = Math.min(b, this.right + 4);
        paint(colour[j]);
        c.fillRect(left, y, right - left - (wide > 4 ? 0.75 : 0), height);
        if (right - left > 30 && height > 14) texts.push(j, left, right);
      } else {
        for (let q = Math.floor(a), end = Math.floor(b); q <= end; ++q) {
          if (q !== pixel) { flush(); pixel = q; }
          covered[colour[j]] += Math.max(0, Math.min(b, q + 1) - Math.max(a, q));
        }
      }
    }
    flush();
    this.drawInstants(row, base);
    if (base < 1) return;
    c.font = `${height > 20 ? 11.5 : 10.5}px ${this.font}`;
    c.textAlign = 'left';
    for (let i = 0; i < texts.length; i += 3) {
      const j = texts[i], left = Math.max(texts[i + 1], this.left) + 4, room = texts[i + 2] - left - 3;
      const fits = Math.floor(room / this.letter), text = fits < 3 ? '…' : shortened(nameOf(lane, lane.item[j]), fits);
      if (text.endsWith('…') && text.length < 8) continue;  // a few letters of a name say nothing
      c.fillStyle = this.inks[colour[j]];
      c.fillText(text, left, y + height / 2 + 0.5, room);
    }
  },

  // A triangle for what takes no time, and one for several that stand close.
  drawInstants(row, alpha) {
    const c = this.context, { at } = row.lane.instants;
    if (!at.length || alpha < 1) return;
    c.fillStyle = this.theme.soft;
    for (let i = upperBound(at, this.from) - 1, last = -9; i < at.length; ++i) {
      if (i < 0) continue;
      const x = this.x(at[i]);
      if (x > this.right) break;
      if (x < this.left - 2 || x - last < 16) continue;
      last = x;
      c.beginPath();
      c.moveTo(x - 2.5, row.y + row.height);
      c.lineTo(x + 2.5, row.y + row.height);
      c.lineTo(x, row.y + row.height - 5);
      c.fill();
    }
  },

  drawMemory(row) {
    const c = this.context, { at, held } = row.curve, { y, height } = row, theme = this.theme;
    const device = row.source.devices[row.device], capacity = device.capacity_bytes;
    const level = (bytes) => y + height - bytes / this.memoryTop * height;
    const over = capacity !== null && device.peak_bytes > capacity, last = at.length - 1;
    // A step line; within one pixel the highest and the last level are kept.
    const trace = () => {
      let i = Math.max(0, upperBound(at, this.from) - 1), x = this.left, high = held[i];
      c.moveTo(x, level(held[i]));
      for (++i; i <= last && at[i] <= this.to; ++i) {
        const next = this.x(at[i]);
        if (next - x >= 0.5) {
          c.lineTo(x, level(high));
          c.lineTo(x, level(held[i - 1]));
          c.lineTo(next, level(held[i - 1]));
          x = next;
          high = held[i];
        } else high = Math.max(high, held[i]);
      }
      const stop = Math.min(this.right, this.x(this.end));
      c.lineTo(x, level(high));
      c.lineTo(x, level(held[i - 1]));
      c.lineTo(stop, level(held[i - 1]));
      return stop;
    };
    c.beginPath();
    const stop = trace();
    c.lineTo(stop, y + height);
    c.lineTo(this.left, y + height);
    const shade = c.createLinearGradient(0, y, 0, y + height);
    shade.addColorStop(0, theme.accent + '70');
    shade.addColorStop(1, theme.accent + '18');
    c.fillStyle = shade;
    c.fill();
    if (over) {
      c.save();
      c.beginPath();
      c.rect(this.left, y, this.right - this.left, Math.max(0, level(capacity) - y));
      c.clip();
      c.beginPath();
      c.lineTo(trace(), y + height);
      c.lineTo(this.left, y + height);
      c.fillStyle = theme.bad;
      c.globalAlpha = 0.55;
      c.fill();
      c.restore();
    }
    c.beginPath();
    trace();
    c.strokeStyle = theme.accent;
    c.lineWidth = 1.25;
    c.lineJoin = 'round';
    c.stroke();
    if (capacity !== null && capacity <= this.memoryTop) {
      c.setLineDash([5, 4]);
      c.strokeStyle = theme.bad;
      c.lineWidth = 1;
      c.beginPath();
      c.moveTo(this.left, Math.round(level(capacity)) + 0.5);
      c.lineTo(this.right, Math.round(level(capacity)) + 0.5);
      c.stroke();
      c.setLineDash([]);
    }
    c.fillStyle = over ? theme.bad : theme.accent;
    c.beginPath();
    c.arc(this.x(device.peak_at_ns), level(device.peak_bytes), 3, 0, 7);
    c.fill();
  },

  // Curves from the end of one span to the start of another, for pairs of [lane, span]: the closer they stand, the
  // fainter, so that what lies beneath stays to be seen.
  drawCurves(pairs, colour, width) {
    const c = this.context, { lanes } = this.run;
    c.save();
    c.beginPath();
    c.rect(this.left, this.scroll, this.right - this.left, this.height);
    c.clip();
    c.beginPath();
    let count = 0;
    for (const [[l, j], [m, k]] of pairs) {
      const a = this.rowOfLane.get(l), b = this.rowOfLane.get(m), from = lanes[l].end[j], to = lanes[m].start[k];
      if (!a || !b || Math.max(from, to) < this.from || Math.min(from, to) > this.to) continue;
      const x0 = this.x(from), x1 = this.x(to), same = a === b;
      const y0 = same ? a.y + 1 : a.y + a.height / 2, y1 = same ? y0 : b.y + b.height / 2;
      const bend = Math.max(6, Math.min(60, (x1 - x0) / 2)), lift = same ? 9 : 0;
      ++count;
      c.moveTo(x0, y0);
      c.bezierCurveTo(x0 + bend, y0 - lift, x1 - bend, y1 - lift, x1, y1);
    }
    c.globalAlpha = Math.max(0.12, Math.min(1, (this.right - this.left) / (8 * count)));
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.stroke();
    c.restore();
  },

  // From each span of the critical path to the next where they are on different rows.
  drawPath() {
    const { path } = this.run, pairs = [];
    for (let i = 1; i < path.length; ++i) if (path[i - 1][0] !== path[i][0]) pairs.push([path[i - 1], path[i]]);
    this.drawCurves(pairs, this.theme.ink, 1.1);
  },

  // What the chosen op waited for, and what waits for it.
  drawNeighbours() {
    const [l, j] = this.chosen, lane = this.run.lanes[l], { placeOfOp, graph } = lane.run;
    if (lane.kind !== 'device') return;
    const op = lane.item[j], shift = lane.offset || 0;
    const placed = (list) => list.map((other) => placeOfOp[other]).filter(Boolean).map(([m, k]) => [m + shift, k]);
    this.drawCurves(placed(graph.producers(op)).map((place) => [place, this.chosen]), this.theme.accent, 2);
    this.drawCurves(placed(graph.readers(op)).map((place) => [this.chosen, place]), this.theme.accent, 1);
  },
});
