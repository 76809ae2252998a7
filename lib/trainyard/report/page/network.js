// The network: its layers as a graph from left to right, wrapped into rows, in the colours of their devices; for two
// runs also a list of the layers on different devices.

const mostBoxes = 400, mostNamed = 160;

// The box of each layer: one for each layer; if these are too many, one for each part of the model; if these are too
// many too, one for each run of consecutive layers.
function boxNames(layers) {
  if (layers.length <= mostBoxes) return new Map(layers.map((layer) => [layer, layer]));
  const ends = layers.map((layer) => [...layer.matchAll(/[/.]/g)].map(({ index }) => index));
  for (let depth = Math.max(...ends.map((list) => list.length)); depth > 0; --depth) {
    const folded = new Map(layers.map((layer, i) => [layer, layer.slice(0, ends[i][depth - 1] ?? layer.length)]));
    if (new Set(folded.values()).size <= mostBoxes) return folded;
  }
  const run = Math.ceil(layers.length / mostBoxes);
  return new Map(layers.map((layer, i) => {
    const first = i - i % run;
    return [layer, `${layers[first]} … ${layers[Math.min(layers.length, first + run) - 1]}`];
  }));
}

// The layers of the box with this name, in the shown runs.
function boxLayers(run, name) {
  const names = boxNames(allLayers(run.other ? [run, run.other] : [run]));
  return new Set([...names].filter(([, box]) => box === name).map(([layer]) => layer));
}

function allLayers(runs) { return [...new Set(runs.flatMap(({ graph }) => graph.layers))].filter(Boolean); }

// The graph of boxes: {boxes: [{name, layers, time: by run, device -> ns, bytes}], edges: [[from, to, sent]], used}.
// Edges are tensors that forward ops read; `sent`: whether the first run transfers one. `used`: by run, the devices of
// each layer.
function layerGraph(runs) {
  const layers = allLayers(runs), names = boxNames(layers);
  const boxes = [...new Set(names.values())].map((name) => ({ name, layers: [], time: runs.map(() => new Map()), bytes: 0 }));
  const at = new Map(boxes.map((box, i) => [box.name, i])), edges = new Map(), used = runs.map(() => new Map());
  for (const layer of layers) boxes[at.get(names.get(layer))].layers.push(layer);
  runs.forEach((run, r) => {
    const { graph } = run, { device } = placements(run), boxOf = graph.layers.map((layer) => at.get(names.get(layer)) ?? -1);
    const add = (map, key, time) => map.set(key, (map.get(key) || 0) + time);
    const note = (op, device, time) => {
      const box = boxOf[graph.layer[op]], layer = graph.layers[graph.layer[op]], name = run.source.devices[device].name;
      if (box < 0) return;
      add(boxes[box].time[r], name, time);
      if (!used[r].has(layer)) used[r].set(layer, new Set());
      used[r].get(layer).add(name);
    };
    for (const lane of run.lanes) {
      if (lane.kind !== 'device') continue;
      lane.item.forEach((op, j) => note(op, lane.device, lane.end[j] - lane.start[j]));
      lane.instants.item.forEach((op) => note(op, lane.device, 0));
    }
    if (r === 0) summed(graph.parameters.op, Int32Array).forEach((op, i) => { const box = boxes[boxOf[graph.layer[op]]]; if (box) box.bytes += graph.parameters.bytes[i]; });
    graph.ops.forEach((_, op) => {
      if (graph.phase[op] !== 0) return;
      for (const from of graph.producers(op)) {
        const [a, b] = [boxOf[graph.layer[from]], boxOf[graph.layer[op]]];
        if (graph.phase[from] === 0 && a >= 0 && b >= 0 && a !== b) {
          const edge = edges.get(`${a},${b}`) || [a, b, false];
          edge[2] ||= r === 0 && device[from] !== device[op];
          edges.set(`${a},${b}`, edge);
        }
      }
    });
  });
  return { boxes, edges: [...edges.values()].sort(([a, b], [c, d]) => a - c || b - d), used };
}

// The column of each box, to the right of all boxes that it reads. A cycle starts at its first box, whose inputs from
// the cycle are edges `back`.
function columnsOf(count, edges) {
  const into = Array.from({ length: count }, () => []), out = Array.from({ length: count }, () => []);
  edges.forEach(([a, b], e) => { into[b].push(e); out[a].push(e); });
  const open = into.map((list) => list.length), column = new Int32Array(count), done = new Uint8Array(count), back = new Set();
  for (let placed = 0; placed < count; ++placed) {
    let next = -1;
    for (let i = 0; i < count && next < 0; ++i) if (!done[i] && open[i] === 0) next = i;
    if (next < 0) {
      next = done.indexOf(0);
      for (const e of into[next]) if (!done[edges[e][0]]) back.add(e);
    }
    done[next] = 1;
    for (const e of out[next]) {
      const to = edges[e][1];
      if (back.has(e)) continue;
      --open[to];
      column[to] = Math.max(column[to], column[next] + 1);
    }
  }
  for (let i = count - 1; i >= 0; --i) {  // a box without inputs is next to its first reader
    const ahead = out[i].filter((e) => !back.has(e)).map((e) => column[edges[e][1]]);
    if (ahead.length && into[i].every((e) => back.has(e))) column[i] = Math.min(...ahead) - 1;
  }
  return { column, back };
}

// Heights nearest to the desired ones (least squares), in the given order, and at least `gaps` apart.
function spread(wishes, gaps) {
  const blocks = [];
  let offset = 0;
  wishes.forEach((wish, i) => {
    if (i > 0) offset += gaps[i - 1];
    blocks.push({ sum: wish - offset, count: 1 });
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1], before = blocks[blocks.length - 2];
      if (before.sum / before.count <= last.sum / last.count) break;
      before.sum += last.sum;
      before.count += last.count;
      blocks.pop();
    }
  });
  const heights = [];
  offset = 0;
  for (const { sum, count } of blocks)
    for (let k = 0; k < count; ++k) {
      if (heights.length) offset += gaps[heights.length - 1];
      heights.push(sum / count + offset);
    }
  return heights;
}

// The layout: an item for each box, and one for each column that a line passes ({from, column, y}). Lines of one box
// share segments: {a, b, from, to: the boxes that it leads to, sent}.
function layOutGraph(count, edges, tall) {
  const { column, back } = columnsOf(count, edges), items = [], lines = new Map(), passing = new Map();
  for (let i = 0; i < count; ++i) items.push({ box: i, from: i, column: column[i], y: 0, left: [], right: [] });
  edges.forEach(([a, b, sent], e) => {
    if (back.has(e)) return;
    let before = a;
    for (let k = column[a] + 1; k <= column[b]; ++k) {
      let here = b;
      if (k < column[b]) {
        const key = `${a},${k}`;
        if (!passing.has(key)) passing.set(key, items.push({ box: -1, from: a, column: k, y: 0, left: [], right: [] }) - 1);
        here = passing.get(key);
      }
      const key = `${before},${here}`;
      if (!lines.has(key)) {
        lines.set(key, { a: items[before], b: items[here], from: a, to: new Set(), sent: false });
        items[before].right.push(items[here]);
        items[here].left.push(items[before]);
      }
      lines.get(key).to.add(b);
      lines.get(key).sent ||= sent;
      before = here;
    }
  });
  const columns = Array.from({ length: Math.max(0, ...column) + 1 }, () => []);
  for (const item of items) columns[item.column].push(item);
  const half = (item) => (item.box < 0 ? 5 : tall / 2 + 5), mean = (list) => list.reduce((sum, { y }) => sum + y, 0) / list.length;
  for (let turn = 0; turn < 8; ++turn) {
    const order = turn % 2 ? [...columns].reverse() : columns;
    for (const list of order) {
      const wish = new Map(list.map((item) => {
        const beside = turn === 7 ? [...item.left, ...item.right] : turn % 2 ? item.right : item.left;
        return [item, beside.length ? mean(beside) : item.y];
      }));
      list.sort((a, b) => wish.get(a) - wish.get(b) || a.y - b.y || a.from - b.from);
      const heights = spread(list.map((item) => wish.get(item)), list.slice(1).map((item, i) => half(list[i]) + half(item)));
      list.forEach((item, i) => { item.y = heights[i]; });
    }
  }
  return { columns, lines: [...lines.values()], back: [...back].map((e) => edges[e]) };
}

// The first column of each row. Rows are as full as possible, or one or two columns shorter where fewer lines cross.
function rowStarts(columns, most) {
  const starts = [0], passing = (k) => columns[k].reduce((sum, { left }) => sum + left.length, 0);
  for (let from = 0; columns.length - from > most; starts.push(from)) {
    let best = from + most;
    for (let k = best - 1; k > Math.max(from, from + most - 3); --k) if (passing(k) < passing(best)) best = k;
    from = best;
  }
  return starts;
}

class Network {
  constructor(page) { this.page = page; }

  show() {
    const { page } = this, { other } = page.view.run, runs = [decodeRun(page.index), ...(other ? [other] : [])];
    const panel = byId('network'), graph = layerGraph(runs), { boxes, used } = graph;
    panel.hidden = boxes.length < 2;
    if (panel.hidden) return;
    const sources = runs.map((run) => run.source), devices = [...new Set(sources.flatMap((source) => source.devices.map(({ name }) => name)))];
    const colour = (name) => deviceColour(devices.indexOf(name), devices.length);
    const list = (r, layer) => [...(used[r].get(layer) || [])].sort((a, b) => devices.indexOf(a) - devices.indexOf(b));
    const moved = new Set(runs.length < 2 ? [] : boxes.flatMap((box) => box.layers).filter((layer) => list(0, layer).join() !== list(1, layer).join()));
    const chart = this.draw(graph, sources, moved, devices, colour);
    const title = runs.length > 1 ? `Network: ${sources[0].label} above, ${sources[1].label} below in each layer` : `Network, ${sources[0].label}`;
    const more = runs.length > 1 ? [this.differences(boxes, sources, moved, list)] : [];
    putChart('network', title, chart, ...more);
    this.mark(page.picked);
  }

  draw({ boxes, edges }, sources, moved, devices, colour) {
    const named = boxes.length <= mostNamed, room = chartRoom(), two = sources.length > 1;
    const wide = named ? (room < 500 ? 97 : 106) : 17, least = named ? (room < 500 ? 8 : 16) : 9, tall = named ? (two ? 50 : 42) : two ? 24 : 17;
    const { columns, lines, back } = layOutGraph(boxes.length, edges, tall), most = Math.max(2, Math.floor((room - least) / (wide + least)));
    const starts = rowStarts(columns, most), rowOf = (k) => upperBound(starts, k) - 1;
    const apart = starts.length > 1 ? Math.floor((room - most * wide) / (most + 1)) : Math.min(44, Math.max(least, Math.floor((room - columns.length * wide) / (columns.length + 1))));
    const width = starts.length > 1 ? room : Math.max(Math.min(room, 640), columns.length * (wide + apart) + apart);
    const chart = svgNode('svg', { class: 'chart network', role: 'group', 'aria-label': `${formatCount(boxes.length)} layers, each in the colours of its devices` });
    const drawn = svgNode('g', { class: 'wires' }), tops = [];
    let y = 8;
    starts.forEach((start, row) => {
      const items = columns.slice(start, starts[row + 1] ?? columns.length).flat();
      const low = Math.min(...items.map((item) => item.y - (item.box < 0 ? 2 : tall / 2))), high = Math.max(...items.map((item) => item.y + (item.box < 0 ? 2 : tall / 2)));
      tops.push(y - low);
      y += high - low + (named ? 22 : 14);
    });
    const place = (item) => [apart + (item.column - starts[rowOf(item.column)]) * (wide + apart), tops[rowOf(item.column)] + item.y];
    const main = (time) => [...time].sort(([, t], [, u]) => u - t)[0][0];
    const curve = (x0, y0, x1, y1) => `M${x0} ${y0.toFixed(1)}C${x0 + apart / 2} ${y0.toFixed(1)} ${x1 - apart / 2} ${y1.toFixed(1)} ${x1} ${y1.toFixed(1)}`;
    for (const line of lines) {
      const [x0, y0] = place(line.a), [x1, y1] = place(line.b), end = x0 + wide;
      const way = rowOf(line.a.column) === rowOf(line.b.column) ? curve(end, y0, x1, y1)
        : `M${end} ${y0.toFixed(1)}H${end + apart - 2}M2 ${y1.toFixed(1)}H${x1}`;
      const pass = line.a.box < 0 ? `M${x0} ${y0.toFixed(1)}H${end}` : '';
      line.node = svgNode('path', { class: line.sent ? 'wire sent' : 'wire', d: pass + way });
      drawn.append(line.node);
    }
    for (const [a, b] of back) {  // from the lower edge of one box to that of the other
      const [[x0, y0], [x1, y1]] = [a, b].map((box) => place(columns.flat().find((item) => item.box === box)));
      drawn.append(svgNode('path', { class: 'wire back', d: `M${x0 + wide / 2} ${y0 + tall / 2}C${x0 + wide / 2} ${y0 + tall / 2 + 26} ${x1 + wide / 2} ${y1 + tall / 2 + 26} ${x1 + wide / 2} ${y1 + tall / 2}` }));
    }
    chart.append(drawn);
    const readers = boxes.map(() => []), reads = boxes.map(() => []);
    for (const [a, b] of edges) { readers[a].push(boxes[b].name); reads[b].push(boxes[a].name); }
    const groups = [];
    for (const item of columns.flat()) {
      if (item.box < 0) continue;
      const box = boxes[item.box], [x, middle] = place(item), top = middle - tall / 2, differs = box.layers.some((layer) => moved.has(layer));
      const words = sources.map((source, r) => `${two ? source.label + ': ' : ''}${this.devices(box.time[r])}`);
      const facts = [box.name, ...words, `parameters ${formatBytes(box.bytes)}`, ...(reads[item.box].length ? [`reads ${some(reads[item.box])}`] : []), ...(readers[item.box].length ? [`read by ${some(readers[item.box])}`] : [])];
      const group = svgNode('g', { class: `layer${differs ? ' moved' : two ? ' same' : ''}`, role: 'button', tabindex: groups.length ? -1 : 0, 'aria-pressed': 'false', 'aria-label': facts.join('; '), transform: `translate(${x} ${top.toFixed(1)})` },
        svgNode('title', {}, facts.join('\n')), svgNode('rect', { class: 'box', width: wide, height: tall, rx: named ? 5 : 3 }));
      const first = box.time.find((time) => time.size);
      if (first) group.append(svgNode('rect', { width: wide, height: tall, rx: named ? 5 : 3, fill: colour(main(first)), opacity: named ? 0.16 : 0.3 }));
      const bar = named ? 7 : two ? 11 : tall - 2;
      sources.forEach((_, r) => this.stripes(group, box.time[r], 1, r ? tall - bar - 1 : 1, wide - 2, bar, devices, colour));
      if (named) {
        const letters = Math.floor((wide - 8) / 6.7);
        group.append(svgNode('text', { x: 5, y: 23 }, shortened(box.name, letters)), svgNode('text', { class: 'soft', x: 5, y: 36 }, shortened(this.where(box, two), letters)));
      }
      group.append(svgNode('rect', { class: 'frame', width: wide, height: tall, rx: named ? 5 : 3, fill: 'none' }));
      group.dataset.box = box.name;
      const light = (on) => { for (const line of lines) if (line.from === item.box || line.to.has(item.box)) line.node.classList.toggle('lit', on); };
      for (const [event, on] of [['pointerenter', true], ['pointerleave', false], ['focus', true], ['blur', false]]) group.addEventListener(event, () => light(on));
      group.addEventListener('click', () => this.page.pickLayers(box.name));
      groups.push(group);
      chart.append(group);
    }
    this.bindKeys(groups);
    this.groups = groups;
    const colours = devices.length > 24 ? [{ ramp: devices.map(colour), text: `${devices[0]} to ${devices[devices.length - 1]}` }] : devices.map((name) => ({ box: colour(name), text: name }));
    y = chartLegend(chart, apart, y + 6, width, [...colours, { line: 'wire', text: 'is read by' }, { line: 'wire sent', text: 'is read by, on another device' },
      ...(back.length ? [{ line: 'wire back', text: 'is read by an earlier layer, in the next round of a loop' }] : []),
      ...(two ? [{ frame: 'moved', text: `on other devices in ${sources[1].label}` }] : [])]);
    chart.setAttribute('viewBox', `0 0 ${width} ${Math.ceil(y)}`);
    return chart;
  }

  // Text of times by device: "gpu0 1.20 ms, gpu1 20 µs".
  devices(time) {
    return time.size ? some([...time].sort(([, t], [, u]) => u - t).map(([name, t]) => `${name} ${formatTime(t)}`)) : 'not there';
  }

  // The text in a box below its name: its device or devices.
  where(box, two) {
    const words = (time, many) => (time.size > 1 ? `${time.size}${many}` : [...time.keys()][0] ?? 'not there'), [own, theirs] = box.time;
    if (!two || words(own) === words(theirs)) return words(own, ' devices');
    return own.size > 1 && theirs.size > 1 ? `${own.size} → ${theirs.size} devices` : `${words(own, ' dev.')} → ${words(theirs, ' dev.')}`;
  }

  // A bar of the devices' shares of the time; equal shares if there is no time.
  stripes(group, time, x, y, wide, tall, devices, colour) {
    const all = [...time].sort(([a], [b]) => devices.indexOf(a) - devices.indexOf(b)), sum = all.reduce((total, [, t]) => total + t, 0);
    for (const [name, t] of all) {
      const share = (sum ? t / sum : 1 / all.length) * wide;
      if (share >= 0.2) group.append(svgNode('rect', { x: x.toFixed(1), y, width: share.toFixed(1), height: tall, rx: all.length > 1 ? 0 : 3, fill: colour(name) }));
      x += share;
    }
  }

  // The layers on different devices in the two runs, by their devices in both.
  differences(boxes, sources, moved, list) {
    const ways = new Map(), all = boxes.reduce((sum, { layers }) => sum + layers.length, 0);
    for (const layer of moved) {
      const words = (r) => { const names = list(r, layer); return names.length > 4 ? `${names.length} devices` : names.join(', ') || 'not there'; }, key = `${words(0)}\n${words(1)}`;
      if (!ways.has(key)) ways.set(key, []);
      ways.get(key).push(layer);
    }
    if (!ways.size) return element('p', { class: 'soft' }, `All ${formatCount(all)} layers are on the same devices in both runs.`);
    const body = element('tbody');
    for (const [key, layers] of [...ways].sort(([, a], [, b]) => b.length - a.length))
      body.append(element('tr', {}, ...key.split('\n').map((text) => element('td', { class: 'name' }, text)), element('td', {}, formatCount(layers.length)), element('td', { class: 'name long' }, some(layers, 24))));
    const head = [sources[0].label, sources[1].label].map((text) => element('th', { class: 'name' }, text));
    return element('details', { open: '' }, element('summary', {}, `${formatCount(moved.size)} of ${formatCount(all)} layers are on other devices in ${sources[1].label}`),
      element('div', { class: 'scroll' }, element('table', { class: 'sums', id: 'moved' }, element('thead', {}, element('tr', {}, ...head, element('th', {}, 'layers'), element('th', { class: 'name' }, 'which'))), body)));
  }

  // One tab stop; arrow keys move from box to box.
  bindKeys(groups) {
    groups.forEach((group, i) => group.addEventListener('keydown', (e) => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[e.key], next = groups[i + (step || 0)];
      if (e.key === 'Enter' || e.key === ' ') group.dispatchEvent(new MouseEvent('click'));
      else if (!step) return;
      else if (next) {
        group.setAttribute('tabindex', -1);
        next.setAttribute('tabindex', 0);
        next.focus();
      }
      e.preventDefault();
      e.stopPropagation();
    }));
  }

  mark(name) {
    for (const group of this.groups || []) {
      group.classList.toggle('picked', group.dataset.box === name);
      group.setAttribute('aria-pressed', group.dataset.box === name);
    }
  }
}

// A list cut short: "a, b, c and 4 more".
function some(names, most = 6) {
  return names.length > most + 1 ? `${names.slice(0, most).join(', ')} and ${formatCount(names.length - most)} more` : names.join(', ');
}
