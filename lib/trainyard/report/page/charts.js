// The charts below the timeline: step time against memory, bytes between devices, the critical path.

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
  for (const pair of pairs.values()) {  // union of spans: transfers may share a link
    pair.busy = 0;
    let until = 0;
    for (const [start, end] of pair.spans.sort(([a], [b]) => a - b)) {
      pair.busy += Math.max(0, end - Math.max(until, start));
      until = Math.max(until, end);
    }
  }
  return pairs;
}

// The Pareto front: runs that no other run beats in both time and memory, fastest first.
function paretoFront(points) {
  let least = Infinity;
  return [...points].sort((a, b) => a.time - b.time || a.memory - b.memory).filter((p) => p.memory < least && ((least = p.memory), true));
}

class Charts {
  constructor(page) {
    this.page = page;
    this.network = new Network(page);
    this.validation = new Validation(page);
    this.show();
  }

  // Draws the charts, after the timeline has been painted.
  show(delay = 30) {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      this.pareto();
      showMesh(data.runs[this.page.index ?? data.open]);
      if (!this.page.drawn.length) return;
      this.matrix();
      this.validation.show();
      this.network.show();
      this.path();
    }, delay);
  }

  pareto() {
    const points = data.runs.map((run, index) => ({ index, run, time: run.value_ns, memory: Math.max(...run.devices.map((d) => d.peak_bytes)) }));
    byId('pareto').hidden = true;
    if (points.length < 2 || new Set(points.map((p) => p.run.value)).size > 1) return;
    const width = halfRoom(), height = 320, left = 70, right = 14, top = 14, bottom = 40, front = paretoFront(points);
    const range = (values) => [Math.min(...values) / 1.08, Math.max(...values) * 1.08 + 1];
    const [t0, t1] = range(points.map((p) => p.time)), [m0, m1] = range(points.map((p) => p.memory));
    const log = t0 > 0 && t1 / t0 > 12, place = (t) => (log ? Math.log(t / t0) / Math.log(t1 / t0) : (t - t0) / (t1 - t0));
    const x = (t) => left + place(t) * (width - left - right), y = (m) => height - bottom - (m - m0) / (m1 - m0) * (height - top - bottom);
    const chart = svgNode('svg', { class: 'chart', role: 'group', 'aria-label': `${points[0].run.value} against peak memory of ${points.length} runs` });
    for (const m of roundTicks(m0, m1, false, 5)) chart.append(svgNode('path', { class: 'rule', d: `M${left} ${y(m)}H${width - right}` }), svgNode('text', { class: 'soft', x: left - 8, y: y(m) + 4, 'text-anchor': 'end' }, tickText(formatBytes(m))));
    for (const t of roundTicks(t0, t1, log, Math.floor(width / 90))) chart.append(svgNode('path', { class: 'rule', d: `M${x(t)} ${top}V${height - bottom}` }), svgNode('text', { class: 'soft', x: x(t), y: height - bottom + 18, 'text-anchor': 'middle' }, tickText(formatTime(t))));
    chart.append(svgNode('text', { class: 'soft', x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle' }, points[0].run.value.toLowerCase() + (log ? ', logarithmic' : '')),
      svgNode('text', { class: 'soft', x: 12, y: (top + height - bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${(top + height - bottom) / 2})` }, 'memory of the fullest device'),
      svgNode('path', { class: 'front', d: 'M' + front.map((p, i) => (i ? `H${x(p.time)}V${y(p.memory)}` : `${x(p.time)} ${y(p.memory)}`)).join('') }));
    const kinds = new Set();
    for (const p of points) {
      const over = p.run.devices.some((d) => d.capacity_bytes !== null && d.peak_bytes > d.capacity_bytes);
      const kind = `dot${p.index === this.page.index ? ' chosen' : ''}${p.index === this.page.below ? ' beside' : ''}${over ? ' over' : ''}`;
      const dot = svgNode('circle', { cx: x(p.time), cy: y(p.memory), r: p.index === this.page.index ? 6 : 4.5, class: kind },
        svgNode('title', {}, `${p.run.label}: ${formatTime(p.time)}, ${formatBytes(p.memory)}${over ? ', too large' : ''}`));
      if (p.run.drawing) dot.addEventListener('click', () => this.page.show(p.index, this.page.belowChosen()));
      kinds.add(over ? 'over' : '');
      chart.append(dot);
    }
    const named = new Set([...points.filter((p) => p.index === this.page.index), ...front, ...points]);
    nameDots(chart, [...named].map((p) => ({ x: x(p.time), y: y(p.memory), name: p.run.label })), [left, 0, width, height - bottom]);
    const end = chartLegend(chart, left - 56, height + 8, width, [{ dot: 'dot', text: 'a run' }, { dot: 'dot chosen', text: 'the chosen run' }, ...(this.page.below === null ? [] : [{ dot: 'dot beside', text: 'the run below it' }]),
      ...(kinds.has('over') ? [{ dot: 'dot over', text: 'too large for its devices' }] : []), { line: 'front', text: 'no run beats these in both' }]);
    chart.setAttribute('viewBox', `0 0 ${width} ${end}`);
    putChart('pareto', `${points[0].run.value} against peak memory`, chart);
  }

  matrix() {
    const { run } = this.page.view, own = decodeRun(this.page.index), pairs = traffic(own), devices = run.source.devices, count = devices.length;
    byId('matrix').hidden = true;
    if (!pairs.size) return;
    const ends = new Set([...pairs.keys()].flatMap((key) => key.split(',').map(Number)));
    const used = devices.map((_, d) => d).filter((d) => ends.has(d));
    const shown = count > 16 ? used.slice(0, 32) : devices.map((_, d) => d), n = shown.length;
    const cell = n > 12 ? 26 : 68, tall = n > 12 ? 26 : 44, left = 92, top = 40, width = Math.max(Math.min(360, halfRoom()), left + n * cell + 12), height = top + n * tall + 8;
    const most = [...pairs.values()].reduce((most, p) => Math.max(most, p.bytes), 0);
    const chart = svgNode('svg', { class: 'chart', role: 'img', 'aria-label': 'Bytes and busy share between devices' });
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
        if (n <= 12) chart.append(svgNode('text', { x: x + cell / 2, y: y + tall / 2 - 2, 'text-anchor': 'middle' }, formatBytes(pair.bytes)), svgNode('text', { x: x + cell / 2, y: y + tall / 2 + 13, 'text-anchor': 'middle' }, share));
        chart.append(svgNode('rect', { x, y, width: cell, height: tall, fill: 'transparent' }, svgNode('title', {}, `${devices[from].name} → ${devices[to].name}: ${formatBytes(pair.bytes)} in ${formatCount(pair.count)} transfers, under way ${share} of the step`)));
      });
    });
    chart.append(svgNode('text', { class: 'soft', x: 4, y: 14 }, 'from row to column'));
    const shades = [0.12, 0.25, 0.37, 0.5, 0.62].map((opacity) => ({ opacity, class: 'heat' }));
    const end = chartLegend(chart, 8, height + 4, width, [{ ramp: shades, text: `0 to ${formatBytes(most)}` }, ...(n <= 12 ? [{ text: 'below: share of the step in which something is under way' }] : []),
      ...(shown.length < used.length ? [{ text: `the first ${shown.length} of ${used.length} devices that send or receive` }] : [])]);
    chart.setAttribute('viewBox', `0 0 ${width} ${end}`);
    putChart('matrix', `Between devices, ${run.source.label}`, chart);
  }

  // The composition of the critical path, by device and link, and by type.
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
