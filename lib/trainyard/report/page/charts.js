// The pictures below the timeline: step time against memory, bytes between devices, the critical path.

const svgNode = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

// Bytes and busy time between each pair of devices.
function traffic(run) {
  const { graph, transfers } = run, times = transferTimes(run), pairs = new Map();
  transfers.tensor.forEach((tensor, i) => {
    for (const to of receivers(run, i)) {
      const key = `${transfers.from[i]},${to}`, pair = pairs.get(key) || { bytes: 0, count: 0, spans: [] };
      pair.bytes += graph.tensor_bytes[tensor];
      ++pair.count;
      if (times.end[i] > times.start[i]) pair.spans.push([times.start[i], times.end[i]]);
      pairs.set(key, pair);
    }
  });
  for (const pair of pairs.values()) {  // the union: transfers may share a link
    pair.busy = 0;
    let until = 0;
    for (const [start, end] of pair.spans.sort(([a], [b]) => a - b)) {
      pair.busy += Math.max(0, end - Math.max(until, start));
      until = Math.max(until, end);
    }
  }
  return pairs;
}

// The runs that no other run beats in time and memory at once, fastest first.
function paretoFront(points) {
  let least = Infinity;
  return [...points].sort((a, b) => a.time - b.time || a.memory - b.memory).filter((p) => p.memory < least && ((least = p.memory), true));
}

// A panel's picture, and the button that saves it.
function putChart(id, title, ...children) {
  const panel = byId(id), button = element('button', { type: 'button', class: 'plain', title: 'Save as SVG' }, 'SVG');
  const chart = children.map((child) => (child.tagName === 'svg' ? child : child.querySelector('svg.chart'))).find(Boolean);
  if (chart) chart.style.maxWidth = chart.viewBox.baseVal.width * (chart.classList.contains('network') ? 1 : 1.15) + 'px';
  button.addEventListener('click', () => save(title, chartSvg(chart)));
  panel.hidden = false;
  panel.replaceChildren(element('div', { class: 'bar' }, element('h2', {}, title), ...(chart ? [button] : [])), ...children);
}

// What the marks of a chart mean, in lines below it; returns where the last one ends. An entry has a `text`, and a
// `box` or a `ramp` of colours, or the class of a `line`, a `dot` or a `frame`.
function chartLegend(chart, left, top, width, entries) {
  let x = left, y = top;
  for (const { text, box, ramp, line, dot, frame } of entries) {
    const mark = ramp ? 90 : line ? 22 : 11, wide = mark + 6 + 6.3 * text.length + 16;
    if (x > left && x + wide > width) { x = left; y += 19; }
    const middle = y + 6;
    if (ramp) ramp.forEach((colour, k) => chart.append(svgNode('rect', { x: x + k * mark / ramp.length, y, width: mark / ramp.length + 0.3, height: 11, fill: colour })));
    else if (line) chart.append(svgNode('path', { class: line, d: `M${x} ${middle}h${mark}` }));
    else if (dot !== undefined) chart.append(svgNode('circle', { class: dot, cx: x + 5.5, cy: middle, r: 4.5 }));
    else if (frame) chart.append(svgNode('rect', { class: frame, x: x + 1, y: y + 1, width: 9, height: 9, rx: 2 }));
    else chart.append(svgNode('rect', { x, y, width: 11, height: 11, rx: 2, fill: box }));
    chart.append(svgNode('text', { class: 'soft', x: x + mark + 6, y: middle + 4 }, text));
    x += wide;
  }
  return y + 19;
}

class Charts {
  constructor(page) {
    this.page = page;
    this.network = new Network(page);
    this.show();
  }

  // Once the timeline is painted.
  show() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      this.pareto();
      if (!this.page.drawn.length) return;
      this.matrix();
      this.network.show();
      this.path();
    }, 30);
  }

  pareto() {
    const points = data.runs.map((run, index) => ({ index, run, time: run.value_ns, memory: Math.max(...run.devices.map((d) => d.peak_bytes)) }));
    byId('pareto').hidden = true;
    if (points.length < 2 || new Set(points.map((p) => p.run.value)).size > 1) return;
    const width = 640, height = 320, left = 70, right = 14, top = 14, bottom = 40, front = paretoFront(points);
    const range = (values) => [Math.min(...values) / 1.08, Math.max(...values) * 1.08 + 1];
    const [t0, t1] = range(points.map((p) => p.time)), [m0, m1] = range(points.map((p) => p.memory));
    const log = t1 / t0 > 12, place = (t) => (log ? Math.log(t / t0) / Math.log(t1 / t0) : (t - t0) / (t1 - t0));
    const x = (t) => left + place(t) * (width - left - right), y = (m) => height - bottom - (m - m0) / (m1 - m0) * (height - top - bottom);
    const chart = svgNode('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${points[0].run.value} against peak memory of ${points.length} runs` });
    for (let k = 0; k <= 4; ++k) {
      const m = m0 + (m1 - m0) * k / 4, t = log ? t0 * (t1 / t0) ** (k / 4) : t0 + (t1 - t0) * k / 4;
      chart.append(svgNode('path', { class: 'rule', d: `M${left} ${y(m)}H${width - right}` }),
        svgNode('text', { class: 'soft', x: left - 8, y: y(m) + 4, 'text-anchor': 'end' }, formatBytes(m)),
        svgNode('text', { class: 'soft', x: x(t), y: height - bottom + 18, 'text-anchor': k === 4 ? 'end' : 'middle' }, formatTime(t)));
    }
    chart.append(svgNode('text', { class: 'soft', x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle' }, `${points[0].run.value}${log ? ' (logarithmic)' : ''}; up: peak memory of the fullest device; line: no run beats these in both`),
      svgNode('path', { class: 'front', d: 'M' + front.map((p, i) => (i ? `H${x(p.time)}V${y(p.memory)}` : `${x(p.time)} ${y(p.memory)}`)).join('') }));
    // A name at the first of four places where it covers no dot and no other name; none where there is no such place.
    const taken = points.map((p) => [x(p.time) - 5, y(p.memory) - 5, x(p.time) + 5, y(p.memory) + 5]), named = new Set();
    const label = (p) => {
      if (named.has(p)) return;
      const px = x(p.time), py = y(p.memory), wide = 6.6 * p.run.label.length;
      for (const [side, base] of [[1, -7], [-1, -7], [1, 15], [-1, 15]]) {
        const from = side > 0 ? px + 6 : px - 6 - wide, box = [from, py + base - 9, from + wide, py + base + 2];
        if (box[0] < left || box[2] > width || box[3] > height - bottom || taken.some((b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) continue;
        taken.push(box);
        named.add(p);
        chart.append(svgNode('text', { x: px + 6 * side, y: py + base, 'text-anchor': side > 0 ? 'start' : 'end' }, p.run.label));
        return;
      }
    };
    for (const p of points) {
      const chosen = p.index === this.page.index, over = p.run.devices.some((d) => d.capacity_bytes !== null && d.peak_bytes > d.capacity_bytes);
      const dot = svgNode('circle', { cx: x(p.time), cy: y(p.memory), r: chosen ? 6 : 4.5, class: `dot${chosen ? ' chosen' : ''}${p.index === this.page.below ? ' beside' : ''}${over ? ' over' : ''}` },
        svgNode('title', {}, `${p.run.label}: ${formatTime(p.time)}, ${formatBytes(p.memory)}${over ? ', too large' : ''}`));
      if (p.run.drawing) dot.addEventListener('click', () => this.page.show(p.index, this.page.belowChosen()));
      chart.append(dot);
    }
    for (const p of [...points.filter((p) => p.index === this.page.index), ...front, ...points]) label(p);
    putChart('pareto', `${points[0].run.value} against peak memory`, chart);
  }

  matrix() {
    const { run } = this.page.view, own = decodeRun(this.page.index), pairs = traffic(own), devices = run.source.devices, count = devices.length;
    byId('matrix').hidden = true;
    if (!pairs.size) return;
    const used = devices.map((_, d) => d).filter((d) => [...pairs.keys()].some((key) => key.split(',').map(Number).includes(d)));
    const shown = count > 16 ? used.slice(0, 32) : devices.map((_, d) => d), n = shown.length;
    const cell = n > 12 ? 26 : 68, tall = n > 12 ? 26 : 44, left = 92, top = 40, width = Math.max(360, left + n * cell + 12), height = top + n * tall + 24;
    const most = Math.max(...[...pairs.values()].map((p) => p.bytes));
    const chart = svgNode('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Bytes and busy share between devices' });
    const short = (name) => shortened(name, n > 12 ? 4 : 11);
    shown.forEach((from, i) => {
      chart.append(svgNode('text', { x: left - 8, y: top + i * tall + tall / 2 + 4, 'text-anchor': 'end' }, shortened(devices[from].name, 12)),
        svgNode('text', { x: left + i * cell + cell / 2, y: top - 8, 'text-anchor': 'middle' }, short(devices[from].name)));
      shown.forEach((to, j) => {
        const pair = pairs.get(`${from},${to}`), x = left + j * cell, y = top + i * tall;
        const box = svgNode('rect', { x: x + 1, y: y + 1, width: cell - 2, height: tall - 2, rx: 3, class: 'square' });
        if (pair) {
          box.setAttribute('class', 'square heat');
          box.setAttribute('opacity', (0.12 + 0.5 * pair.bytes / most).toFixed(3));
        }
        chart.append(box);
        if (!pair) return;
        const share = formatPercent(pair.busy / Math.max(1, run.source.makespan_ns));
        if (n <= 12) chart.append(svgNode('text', { x: x + cell / 2, y: y + tall / 2 - 2, 'text-anchor': 'middle' }, formatBytes(pair.bytes)), svgNode('text', { class: 'soft', x: x + cell / 2, y: y + tall / 2 + 13, 'text-anchor': 'middle' }, share));
        chart.append(svgNode('rect', { x, y, width: cell, height: tall, fill: 'transparent' }, svgNode('title', {}, `${devices[from].name} → ${devices[to].name}: ${formatBytes(pair.bytes)} in ${formatCount(pair.count)} transfers, under way ${share} of the step`)));
      });
    });
    chart.append(svgNode('text', { class: 'soft', x: 4, y: 14 }, 'from row to column: bytes, share of the step under way'));
    if (shown.length < used.length) chart.append(svgNode('text', { class: 'soft', x: left, y: height - 6 }, `the first ${shown.length} of ${used.length} devices that send or receive`));
    putChart('matrix', `Between devices, ${run.source.label}`, chart);
  }

  // What the critical path is made of: by device and link, and by type.
  path() {
    const own = decodeRun(this.page.index), panel = byId('path');
    panel.hidden = true;
    if (!own.path.length) return;
    const places = new Map(), types = new Map(), add = (map, key, time) => {
      const sum = map.get(key) || { count: 0, time: 0 };
      ++sum.count;
      sum.time += time;
      map.set(key, sum);
    };
    for (const [l, j] of own.path) {
      const lane = own.lanes[l], op = opOf(lane, lane.item[j]), device = lane.kind === 'device', { from } = own.transfers;
      const time = lane.end[j] - lane.start[j], name = (d) => own.source.devices[d].name;
      add(places, device ? lane.name : `${name(from[lane.item[j]])} → ${receivers(own, lane.item[j]).map(name).join(', ')}`, time);
      add(types, device ? forwardType(own.graph.types[own.graph.type[op]]) || 'no type' : 'transfer', time);
    }
    const sorted = (map) => [...map].sort(([x, s], [y, t]) => t.time - s.time || (x < y ? -1 : 1));
    const tables = [sumTable('device or way', sorted(places)), sumTable('type', sorted(types))], ifs = own.source.what_if || [];
    if (ifs.length) {
      const body = element('tbody');
      for (const { name, makespan_ns: time } of ifs.slice(0, 12))
        body.append(element('tr', {}, element('td', { class: 'name' }, name), element('td', {}, formatTime(time)), element('td', {}, `${(own.source.makespan_ns / Math.max(1, time)).toFixed(2)}×`)));
      tables.push(element('table', { class: 'sums' }, element('thead', {}, element('tr', {}, element('th', { class: 'name' }, 'what if'), element('th', {}, 'step time'), element('th', {}, 'as fast'))), body));
    }
    putChart('path', `Critical path, ${own.source.label}`, element('div', { class: 'columns' }, ...tables));
  }
}
