// Drawing of the view's rows: spans, instants, memory; and of curves between rows.

Object.assign(View.prototype, {
  // Draws spans of at least 3 pixels as rectangles. Narrower ones are merged by pixel, in the colour that covers most
  // of it, with the covered fraction as opacity. They are painted as one image, a pixel high, since thousands of narrow
  // rectangles take most of a frame.
  drawSpans(row, shown) {
    const c = this.context, { lane, y, height } = row, { start, end, colour } = lane;
    const scale = (this.right - this.left) / (this.to - this.from), zero = this.left - this.from * scale;
    const first = upperBound(end, this.from), last = upperBound(start, this.to);
    const colours = this.scheme.colours, covered = new Float32Array(colours.length), base = c.globalAlpha;
    const texts = [], wide = [], strip = this.whole ? null : this.stripOf(this.left, this.right);
    let pixel = -1, narrow = false;
    const flush = () => {
      if (pixel < 0) return;
      let sum = 0, most = 0;
      for (let k = 0; k < covered.length; ++k) {
        sum += covered[k];
        if (covered[k] > covered[most]) most = k;
      }
      covered.fill(0);
      if (sum <= 0) return;
      const alpha = Math.min(1, (this.dimmed && shown ? 0.6 : 0.25) + 0.75 * sum);
      if (strip) {
        narrow = true;
        if (pixel >= strip.left && pixel < strip.left + strip.width) strip.pixels[pixel - strip.left] = this.packed[most] | Math.round(255 * alpha) << 24;
        return;
      }
      c.fillStyle = colours[most];
      c.globalAlpha = base * alpha;
      c.fillRect(pixel, y, 1, height);
      c.globalAlpha = base;
    };
    for (let j = first; j < last; ++j) {
      if (lane.shown[j] !== shown) continue;
      const a = start[j] * scale + zero, b = end[j] * scale + zero;
      if (b - a >= 3) {
        wide.push(j, a, b);
        continue;
      }
      for (let q = Math.floor(a), stop = Math.floor(b); q <= stop; ++q) {
        if (q !== pixel) { flush(); pixel = q; }
        covered[colour[j]] += Math.max(0, Math.min(b, q + 1) - Math.max(a, q));
      }
    }
    flush();
    if (narrow) {
      strip.context.putImageData(strip.image, 0, 0);
      strip.pixels.fill(0);
      c.imageSmoothingEnabled = false;
      c.drawImage(strip.canvas, 0, 0, strip.width, 1, strip.left, y, strip.width, height);
    }
    for (let i = 0, fill = -1; i < wide.length; i += 3) {
      const j = wide[i], left = Math.max(wide[i + 1], this.left - 4), right = Math.min(wide[i + 2], this.right + 4);
      if (fill !== colour[j]) c.fillStyle = colours[fill = colour[j]];
      c.fillRect(left, y, right - left - (wide[i + 2] - wide[i + 1] > 4 ? 0.75 : 0), height);
      if (right - left > 30 && height > 14) texts.push(j, left, right);
    }
    this.drawInstants(row, base);
    if (base < 1) return;
    c.font = `${height > 20 ? 11.5 : 10.5}px ${this.font}`;
    c.textAlign = 'left';
    for (let i = 0; i < texts.length; i += 3) {
      const j = texts[i], left = Math.max(texts[i + 1], this.left) + 4, room = texts[i + 2] - left - 3;
      const fits = Math.floor(room / this.letter), text = fits < 3 ? '…' : shortened(nameOf(lane, lane.item[j]), fits);
      if (text.endsWith('…') && text.length < 8) continue;  // a few letters of a name are of no use
      c.fillStyle = this.inks[colour[j]];
      c.fillText(text, left, y + height / 2 + 0.5, room);
    }
  },

  // An empty image between two positions, one pixel high.
  stripOf(left, right) {
    const from = Math.floor(left), width = Math.max(1, Math.ceil(right) - from);
    if (this.strip?.width !== width) {
      const canvas = document.createElement('canvas'), image = new ImageData(width, 1);
      Object.assign(canvas, { width, height: 1 });
      this.strip = { canvas, image, width, context: canvas.getContext('2d'), pixels: new Uint32Array(image.data.buffer) };
    }
    return Object.assign(this.strip, { left: from });
  },

  // Draws a triangle for each op without duration; those close to each other share one.
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
    const c = this.context, { y, height } = row, theme = this.theme;
    const device = row.source.devices[row.device], capacity = device.capacity_bytes;
    const level = (bytes) => y + height - bytes / this.memoryTop * height;
    const over = capacity !== null && device.peak_bytes > capacity;
    if (this.whole) this.traceMemory(row, level, over ? level(capacity) : -Infinity);
    else this.paintMemory(row, over ? capacity : Infinity);
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

  // Draws the memory curve and the area under it as pixels, since a path with as many corners takes most of a frame. In
  // each column of pixels the line goes from the least to the most memory.
  paintMemory({ curve: { at, held }, y, height }, capacity) {
    const { ratio } = this, left = Math.floor(this.left * ratio), width = Math.ceil((Math.min(this.right, this.x(this.end))) * ratio) - left, tall = Math.round(height * ratio);
    if (width <= 0) return;
    const scale = tall / this.memoryTop, most = new Float64Array(width).fill(-1), least = new Float64Array(width).fill(Infinity);
    for (let i = Math.max(0, upperBound(at, this.from) - 1); i < at.length && at[i] <= this.to; ++i) {
      const first = Math.max(0, Math.floor(this.x(at[i]) * ratio) - left), until = Math.min(width - 1, Math.floor(this.x(i + 1 < at.length ? at[i + 1] : this.end) * ratio) - left);
      for (let q = first; q <= until; ++q) {
        if (held[i] > most[q]) most[q] = held[i];
        if (held[i] < least[q]) least[q] = held[i];
      }
    }
    if (this.memory?.width !== width || this.memory.height !== tall) {
      const canvas = document.createElement('canvas'), image = new ImageData(width, tall);
      Object.assign(canvas, { width, height: tall });
      this.memory = { canvas, image, width, height: tall, context: canvas.getContext('2d'), pixels: new Uint32Array(image.data.buffer) };
    }
    const { pixels } = this.memory, accent = packed(this.theme.accent), bad = packed(this.theme.bad), half = 0.625 * ratio, limit = tall - capacity * scale;
    const shade = Uint32Array.from({ length: tall }, (_, p) => (p < limit ? bad | 0x8c << 24 : accent | Math.round(0x70 - (0x70 - 0x18) * p / tall) << 24));
    pixels.fill(0);
    for (let q = 0; q < width; ++q) {
      if (most[q] < 0) continue;
      const top = tall - most[q] * scale - half, bottom = tall - least[q] * scale + half, after = Math.min(tall, Math.ceil(bottom));
      let p = Math.max(0, Math.floor(top));
      for (; p < after; ++p) {
        const line = Math.min(bottom, p + 1) - Math.max(top, p);
        pixels[p * width + q] = accent | Math.max(Math.round(255 * line), p > top ? shade[p] >>> 24 : 0) << 24;
      }
      for (; p < tall; ++p) pixels[p * width + q] = shade[p];
    }
    this.memory.context.putImageData(this.memory.image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(this.memory.canvas, left / ratio, y, width / ratio, tall / ratio);
  },

  // Draws the memory curve as a path of steps, for SVG. Within half a pixel, the highest and the last level are kept.
  traceMemory({ curve: { at, held }, y, height }, level, limit) {
    const c = this.context, theme = this.theme, last = at.length - 1;
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
    const area = () => {
      c.beginPath();
      c.lineTo(trace(), y + height);
      c.lineTo(this.left, y + height);
      c.fill();
    };
    c.fillStyle = theme.accent + '44';
    area();
    if (limit > y) {
      c.save();
      c.beginPath();
      c.rect(this.left, y, this.right - this.left, limit - y);
      c.clip();
      c.fillStyle = theme.bad;
      c.globalAlpha = 0.55;
      area();
      c.restore();
    }
    c.beginPath();
    trace();
    c.strokeStyle = theme.accent;
    c.lineWidth = 1.25;
    c.stroke();
  },

  // Draws curves from the end of one span to the start of another, for pairs of [lane, span]. The denser they are, the
  // fainter, so that spans under them stay visible.
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

  // Draws curves between consecutive spans of the critical path that are on different rows.
  drawPath() {
    const { path } = this.run, pairs = [];
    for (let i = 1; i < path.length; ++i) if (path[i - 1][0] !== path[i][0]) pairs.push([path[i - 1], path[i]]);
    this.drawCurves(pairs, this.theme.ink, 1.1);
  },

  // Draws curves between the chosen op and its producers and readers.
  drawNeighbours() {
    const [l, j] = this.chosen, lane = this.run.lanes[l], { placeOfOp, graph } = lane.run;
    if (lane.kind !== 'device') return;
    const op = lane.item[j], shift = lane.offset || 0;
    const placed = (list) => list.map((other) => placeOfOp[other]).filter(Boolean).map(([m, k]) => [m + shift, k]);
    this.drawCurves(placed(graph.producers(op)).map((place) => [place, this.chosen]), this.theme.accent, 2);
    this.drawCurves(placed(graph.readers(op)).map((place) => [this.chosen, place]), this.theme.accent, 1);
  },
});
