// The data of the file, as typed arrays. Integers are delta-coded: each number is the difference from the previous one.

const data = JSON.parse(document.getElementById('data').textContent);

function summed(steps, Type = Float64Array) {
  const values = new Type(steps.length);
  for (let i = 0, at = 0; i < steps.length; ++i) values[i] = at += steps[i];
  return values;
}

// A lane: spans sorted by start that never overlap, so that both starts and ends ascend; instants are separate.
function decodeLane(lane, run) {
  const count = lane.item.length, start = new Float64Array(count), end = new Float64Array(count);
  for (let i = 0, at = 0; i < count; ++i) {
    start[i] = at += lane.gap[i];
    end[i] = at += lane.length[i];
  }
  return {
    run, name: lane.name, kind: lane.kind, device: lane.device, start, end, item: summed(lane.item, Int32Array),
    instants: { item: summed(lane.instants.item, Int32Array), at: summed(lane.instants.at) },
    colour: new Uint8Array(count), shown: new Uint8Array(count).fill(1), critical: new Uint8Array(count),
  };
}

// The producers and the readers of each op: lists in one array, with the start of each.
function decodeEdges(graph) {
  const count = graph.ops.length, first = new Uint32Array(count + 1), readers = Array.from({ length: count }, () => []);
  const producers = [];
  for (let op = 0, at = 0; op < count; ++op) {
    const own = new Set();
    for (let k = 0; k < graph.input_count[op]; ++k, ++at) own.add(op - graph.inputs[at]);
    for (const from of own) { producers.push(from); readers[from].push(op); }
    first[op + 1] = producers.length;
  }
  graph.producers = (op) => producers.slice(first[op], first[op + 1]);
  graph.readers = (op) => readers[op];
}

const decoded = new Map();

// The drawing of run `index`, decoded at its first use.
function decodeRun(index) {
  if (decoded.has(index)) return decoded.get(index);
  const source = data.runs[index], drawing = source.drawing, graph = data.graphs[source.graph];
  const run = {
    source, graph, lanes: [],
    transfers: {
      tensor: summed(drawing.transfers.tensor, Int32Array), from: drawing.transfers.from, to: drawing.transfers.to,
      waited: drawing.transfers.waited, also: drawing.transfers.also_to || {},
    },
    memory: drawing.memory.map((m) => ({ at: summed(m.at), held: summed(m.held) })),
    criticalOps: new Set(), criticalTransfers: new Set(), path: [],
  };
  run.lanes = drawing.lanes.map((lane) => decodeLane(lane, run));
  // Edges are decoded at their first use.
  graph.producers ??= (op) => { decodeEdges(graph); return graph.producers(op); };
  graph.readers ??= (op) => { decodeEdges(graph); return graph.readers(op); };
  run.placeOfOp = new Array(graph.ops.length).fill(null);
  run.lanes.forEach((lane, l) => { if (lane.kind === 'device') lane.item.forEach((op, j) => { run.placeOfOp[op] = [l, j]; }); });
  for (const step of drawing.path) (step >= 0 ? run.criticalOps : run.criticalTransfers).add(step >= 0 ? step : -step - 1);
  const place = new Map();  // step of the path -> the first place where it is drawn
  run.lanes.forEach((lane, l) => {
    const set = lane.kind === 'device' ? run.criticalOps : run.criticalTransfers;
    for (let j = 0; j < lane.item.length; ++j) {
      if (!set.has(lane.item[j])) continue;
      lane.critical[j] = 1;
      const step = lane.kind === 'device' ? lane.item[j] : -lane.item[j] - 1;
      if (!place.has(step)) place.set(step, [l, j]);
    }
  });
  for (const step of drawing.path) if (place.has(step)) run.path.push(place.get(step));
  decoded.set(index, run);
  return run;
}

// The run with another run below it, whose lanes follow; each lane refers to its own run.
function withBeneath(run, index) {
  if (index === null || !data.runs[index]?.drawing) return run;
  const other = decodeRun(index), offset = run.lanes.length;
  const lanes = other.lanes.map((lane) => (
    { ...lane, beneath: true, offset, colour: new Uint8Array(lane.item.length), shown: new Uint8Array(lane.item.length).fill(1) }));
  return { ...run, beneath: other.source, other, lanes: [...run.lanes, ...lanes] };
}

// The op of a span: on a device the op itself, on a link the producer of the transferred tensor.
function opOf(lane, item) {
  return lane.kind === 'device' ? item : lane.run.graph.producer[lane.run.transfers.tensor[item]];
}

function nameOf(lane, item) {
  const { graph, transfers } = lane.run;
  return lane.kind === 'device' ? graph.ops[item] : graph.tensors[transfers.tensor[item]];
}

// Start and end of each transfer, over all links of its route.
function transferTimes(run) {
  if (run.transferTimes) return run.transferTimes;
  const count = run.transfers.tensor.length, start = new Float64Array(count).fill(NaN), end = new Float64Array(count).fill(NaN);
  for (const lane of run.lanes) {
    if (lane.kind === 'device') continue;
    lane.item.forEach((item, j) => {
      if (!(start[item] <= lane.start[j])) start[item] = lane.start[j];
      if (!(end[item] >= lane.end[j])) end[item] = lane.end[j];
    });
    lane.instants.item.forEach((item, j) => { if (!(start[item] >= 0)) start[item] = end[item] = lane.instants.at[j]; });
  }
  return run.transferTimes = { start, end };
}

// The transfers of the outputs of each op.
function transfersOf(run) {
  if (run.transfersOf) return run.transfersOf;
  const { graph, transfers } = run, lists = graph.ops.map(() => []);
  transfers.tensor.forEach((tensor, i) => lists[graph.producer[tensor]].push(i));
  return run.transfersOf = lists;
}

// All devices that a transfer goes to.
function receivers(run, item) { return [run.transfers.to[item], ...(run.transfers.also[item] || [])]; }

// The first index whose value is greater than x, in ascending values.
function upperBound(values, x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle + 1; else high = middle;
  }
  return low;
}
