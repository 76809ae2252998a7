// Pointer, keyboard, search, and the overview of the whole step.

class Controls {
  constructor(view, page) {
    this.view = view;
    this.page = page;
    this.matches = [];
    this.match = -1;
    this.pointers = new Map();
    this.bindPointer(view.canvas);
    this.bindOverview(byId('overview'));
    this.bindKeys();
    byId('in').onclick = () => this.zoom(0.5);
    byId('out').onclick = () => this.zoom(2);
    byId('fit').onclick = () => this.glide(0, view.end);
    byId('search').addEventListener('input', () => this.search(byId('search').value));
    byId('view').addEventListener('scroll', () => view.redraw(), { passive: true });
  }

  // Moves the window over a few frames, or at once if the reader prefers reduced motion.
  glide(from, to) {
    const view = this.view, a = view.from, b = view.to, began = performance.now();
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) return view.setWindow(from, to);
    const turn = this.turn = (this.turn || 0) + 1;
    this.gliding = true;
    const step = (now) => {
      if (turn !== this.turn) return;
      const t = Math.min(1, Math.max(0, (now - began) / 160)), ease = 1 - (1 - t) ** 3;
      view.setWindow(a + (from - a) * ease, b + (to - b) * ease);
      this.gliding = t < 1;
      if (this.gliding) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  jump(from, to) {
    this.turn = (this.turn || 0) + 1;
    this.gliding = false;
    this.view.setWindow(from, to);
  }

  zoom(factor, time = (this.view.from + this.view.to) / 2, smooth = true) {
    const { from, to } = this.view, a = time - (time - from) * factor, b = time + (to - time) * factor;
    if (smooth) this.glide(a, b); else this.jump(a, b);
  }

  pan(share) {
    const { from, to, end } = this.view, by = Math.max(-from, Math.min(end - to, (to - from) * share));
    this.glide(from + by, to + by);
  }

  bindPointer(canvas) {
    const view = this.view;
    canvas.addEventListener('wheel', (e) => {
      if (e.ctrlKey || e.metaKey) {
        e.preventDefault();
        this.zoom(Math.exp(e.deltaY * (e.deltaMode ? 0.06 : 0.004)), view.time(e.offsetX), false);
      } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        const by = (e.deltaX || e.deltaY) * (view.to - view.from) / (view.right - view.left);
        this.jump(view.from + by, view.to + by);
      }
    }, { passive: false });
    canvas.addEventListener('pointerdown', (e) => {
      if (e.button) return;
      canvas.setPointerCapture(e.pointerId);
      this.pointers.set(e.pointerId, e.offsetX);
      this.drag = { x: e.offsetX, y: e.offsetY, from: view.from, to: view.to, moved: false, range: e.shiftKey };
      if (this.pointers.size === 2) this.pinch = { gap: this.gap(), from: view.from, to: view.to };
      this.page.hideTip();
    });
    canvas.addEventListener('pointermove', (e) => {
      if (this.pointers.has(e.pointerId)) this.pointers.set(e.pointerId, e.offsetX);
      if (this.pinch && this.pointers.size === 2) {
        const factor = this.pinch.gap / Math.max(8, this.gap()), middle = (this.pinch.from + this.pinch.to) / 2;
        const half = (this.pinch.to - this.pinch.from) / 2 * factor;
        this.jump(middle - half, middle + half);
      } else if (this.drag) {
        if (Math.hypot(e.offsetX - this.drag.x, e.offsetY - this.drag.y) > 3) this.drag.moved = true;
        if (this.drag.range) {
          view.range = [view.time(this.drag.x), view.time(e.offsetX), view.rowsBetween(this.drag.y, e.offsetY)];
          view.redraw();
        } else if (this.drag.moved) {
          const by = (this.drag.x - e.offsetX) * (this.drag.to - this.drag.from) / (view.right - view.left);
          this.jump(this.drag.from + by, this.drag.to + by);
        }
      } else this.hover(e);
    });
    const release = (e) => {
      this.pointers.delete(e.pointerId);
      const drag = this.drag;
      if (this.pointers.size < 2) this.pinch = null;
      if (!this.pointers.size) this.drag = null;
      if (drag?.range) {
        const [a, b] = view.range || [0, 0];
        this.page.selectArea(Math.abs(a - b) * (view.right - view.left) / (view.to - view.from) > 4 ? view.range : null);
      } else if (drag && !drag.moved && e.type === 'pointerup') {
        const found = view.at(e.offsetX, e.offsetY);
        this.page.selectArea(null);
        if (found?.row.kind === 'memory') showHeld(view.memoryRun(found.row), found.row.device, Math.max(0, found.time));
        this.page.choose(found && found.j !== undefined ? [found.row.index, found.j] : null);
      }
    };
    canvas.addEventListener('pointerup', release);
    canvas.addEventListener('pointercancel', release);
    canvas.addEventListener('pointerleave', () => { view.hover = null; this.page.hideTip(); view.showHover(); });
    canvas.addEventListener('dblclick', (e) => {
      const found = view.at(e.offsetX, e.offsetY);
      if (found && found.j !== undefined) this.reveal([found.row.index, found.j], true);
      else this.zoom(0.5, view.time(e.offsetX));
    });
  }

  gap() {
    const [a, b] = [...this.pointers.values()];
    return Math.abs(a - b);
  }

  hover(e) {
    const view = this.view, found = view.at(e.offsetX, e.offsetY), before = view.hover;
    view.hover = found && found.j !== undefined ? [found.row.index, found.j] : null;
    if (String(before) !== String(view.hover)) view.showHover();
    if (found) this.page.showTip(found, e.clientX, e.clientY);
    else this.page.hideTip();
  }

  // Scrolls to a span; `close` also zooms in on it and its surroundings.
  reveal([index, j], close = false) {
    const view = this.view, lane = view.run.lanes[index], row = view.rowOfLane.get(index), box = byId('view');
    const length = lane.end[j] - lane.start[j], middle = (lane.start[j] + lane.end[j]) / 2;
    if (row && (row.y < box.scrollTop || row.y + row.height > box.scrollTop + view.height - axisHeight)) box.scrollTop = row.y - 60;
    let wide = view.to - view.from;
    if (close) wide = length * 3;
    else if (length * (view.right - view.left) < wide * 12) wide = Math.max(length * 60, 8);
    else if (lane.start[j] >= view.from && lane.end[j] <= view.to) return view.redraw();
    this.glide(middle - wide / 2, middle + wide / 2);
  }

  search(text) {
    const view = this.view, words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
    this.matches = [];
    this.match = -1;
    if (words.length) {
      const { lanes } = view.run, hits = new Map();
      for (const { graph } of [view.run, view.run.other].filter(Boolean)) {
        if (hits.has(graph)) continue;
        hits.set(graph, new Set());
        graph.ops.forEach((name, op) => {
          const all = `${name} ${graph.types[graph.type[op]]} ${graph.layers[graph.layer[op]]}`.toLowerCase();
          if (words.every((word) => all.includes(word))) hits.get(graph).add(op);
        });
      }
      lanes.forEach((lane, l) => {
        const own = hits.get(lane.run.graph);
        for (let j = 0; j < lane.item.length; ++j) if (own.has(opOf(lane, lane.item[j]))) this.matches.push([l, j]);
      });
      this.matches.sort(([l, j], [m, k]) => lanes[l].start[j] - lanes[m].start[k] || l - m);
    }
    this.page.refreshShown();
    this.showFound(words.length > 0);
  }

  showFound(searching) {
    const count = formatCount(this.matches.length);
    byId('found').textContent = !searching ? '' : this.match >= 0 ? `${this.match + 1} of ${count}` : `${count} found`;
  }

  nextMatch(step) {
    if (!this.matches.length) return;
    this.match = this.match < 0 ? (step > 0 ? 0 : this.matches.length - 1) : (this.match + step + this.matches.length) % this.matches.length;
    this.page.choose(this.matches[this.match]);
    this.reveal(this.matches[this.match]);
    this.showFound(true);
  }

  neighbour(step) {
    const view = this.view;
    if (!view.chosen) {
      const first = view.run.lanes.findIndex((lane) => lane.item.length);
      if (first >= 0) this.page.choose([first, Math.min(view.run.lanes[first].item.length - 1, upperBound(view.run.lanes[first].end, view.from))]);
    } else {
      const [l, j] = view.chosen, next = Math.min(view.run.lanes[l].item.length - 1, Math.max(0, j + step));
      this.page.choose([l, next]);
    }
    if (view.chosen) this.reveal(view.chosen);
  }

  bindKeys() {
    const { view } = this, search = byId('search');
    search.addEventListener('keydown', (e) => {
      if (e.key === 'Enter') this.nextMatch(e.shiftKey ? -1 : 1);
      if (e.key === 'Escape') { search.value = ''; this.search(''); this.view.canvas.focus(); }
    });
    addEventListener('keydown', (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.target.closest('input[type=search], select, textarea')) return;
      const arrows = !e.target.closest('input, #view') || e.target === this.view.canvas || e.target === document.body;
      const actions = {
        '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), '-': () => this.zoom(2), _: () => this.zoom(2),
        f: () => this.glide(0, this.view.end), 0: () => this.glide(0, this.view.end),
        '/': () => { search.focus(); search.select(); },
        n: () => this.nextMatch(1), N: () => this.nextMatch(-1),
        c: () => byId('critical').click(), '.': () => this.neighbour(1), ',': () => this.neighbour(-1),
        m: () => {
          const lane = view.chosen ? view.run.lanes[view.chosen[0]] : view.run.lanes.find((each) => each.kind === 'device');
          if (lane.device !== null) showHeld(lane.run, lane.device, view.chosen ? lane.start[view.chosen[1]] : (view.from + view.to) / 2);
        },
        z: () => { if (view.range) this.glide(Math.min(view.range[0], view.range[1]), Math.max(view.range[0], view.range[1])); },
        Escape: () => { this.page.selectArea(null); this.page.choose(null); this.page.isolate(-1); if (this.page.picked) this.page.pickLayers(''); },
        ...(arrows && { ArrowLeft: () => this.pan(-0.25), ArrowRight: () => this.pan(0.25) }),
      };
      if (!Object.hasOwn(actions, e.key)) return;
      e.preventDefault();
      actions[e.key]();
    });
  }

  // The number of busy devices over the step, by colour, with a frame around the window of the timeline.
  drawOverview() {
    const canvas = byId('overview'), view = this.view, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!height) return;  // in print
    const key = [width, view.left, view.ratio, this.page.colourKey()].join();
    if (this.overviewKey !== key) {
      this.overviewKey = key;
      this.overview = this.renderOverview(view.right - view.left, height);
    }
    const [wide, tall] = [width, height].map((size) => Math.round(size * view.ratio)), c = canvas.getContext('2d');
    if (canvas.width !== wide || canvas.height !== tall) Object.assign(canvas, { width: wide, height: tall });
    c.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    c.fillStyle = view.theme.card;
    c.fillRect(0, 0, width, height);
    c.font = `12px ${view.font}`;
    c.textBaseline = 'middle';
    c.fillStyle = view.theme.soft;
    c.fillText(view.width < 700 ? 'whole step' : 'devices busy, whole step', 16, height / 2);
    const left = view.left, inside = view.right - left, from = left + view.from / view.end * inside, to = left + view.to / view.end * inside;
    c.drawImage(this.overview, left, 0, inside, height);
    if (view.to - view.from > 0.995 * view.end) return;
    c.fillStyle = view.theme.card;
    c.globalAlpha = 0.65;
    c.fillRect(left, 0, from - left, height);
    c.fillRect(to, 0, view.right - to, height);
    c.globalAlpha = 1;
    c.strokeStyle = view.theme.accent;
    c.lineWidth = 1.5;
    const a = Math.max(left + 0.75, from), b = Math.min(view.right - 0.75, to);
    c.strokeRect(a, 0.75, Math.max(3, b - a), height - 1.5);
  }

  renderOverview(width, height) {
    const view = this.view, { ratio, run, end } = view, columns = Math.max(1, Math.round(width / 2)), colours = view.scheme.colours;
    const sums = colours.map(() => new Float64Array(columns)), scale = columns / end;
    const devices = run.lanes.filter((l) => l.kind === 'device' && !l.beneath);
    for (const lane of devices) {
      for (let j = 0; j < lane.item.length; ++j) {
        const a = lane.start[j] * scale, b = lane.end[j] * scale, sum = sums[lane.colour[j]];
        for (let q = Math.floor(a); q < b && q < columns; ++q) sum[q] += Math.min(b, q + 1) - Math.max(a, q);
      }
    }
    const made = document.createElement('canvas');
    made.width = Math.round(width * ratio);
    made.height = Math.round(height * ratio);
    const c = made.getContext('2d'), wide = made.width / columns;
    c.fillStyle = view.theme.lane;
    c.fillRect(0, 0, made.width, made.height);
    for (let q = 0; q < columns; ++q) {
      let base = made.height;
      colours.forEach((colour, k) => {
        const tall = sums[k][q] / devices.length * (made.height - 2 * ratio);
        if (tall <= 0) return;
        c.fillStyle = colour;
        c.fillRect(Math.floor(q * wide), base - tall, Math.ceil(wide), tall);
        base -= tall;
      });
    }
    return made;
  }

  bindOverview(canvas) {
    const time = (e) => Math.min(this.view.end, Math.max(0, (e.offsetX - this.view.left) / (this.view.right - this.view.left) * this.view.end));
    let drag = null;
    canvas.addEventListener('pointerdown', (e) => {
      canvas.setPointerCapture(e.pointerId);
      const view = this.view, t = time(e), inside = t > view.from && t < view.to && view.to - view.from < 0.995 * view.end;
      drag = inside ? { from: view.from, to: view.to, t } : { t };
    });
    canvas.addEventListener('pointermove', (e) => {
      if (!drag) return;
      const t = time(e);
      if (drag.to !== undefined) this.jump(drag.from + t - drag.t, drag.to + t - drag.t);
      else if (Math.abs(t - drag.t) > this.view.end * 0.003) this.jump(Math.min(t, drag.t), Math.max(t, drag.t));
    });
    canvas.addEventListener('pointerup', () => { drag = null; });
    canvas.addEventListener('dblclick', () => this.glide(0, this.view.end));
  }
}
