// Contents of a device's memory at a time, by the rules of the simulation: parameters and state for the whole step,
// workspace while its op runs, a tensor from the start of its op to its last use or transfer, a received copy from the
// start of its transfer to its last use there, kept tensors until the end.

// Start, end and device of each op.
function placements(run) {
  const count = run.graph.ops.length, start = new Float64Array(count), end = new Float64Array(count), device = new Int32Array(count);
  for (const lane of run.lanes) {
    if (lane.kind !== 'device') continue;
    lane.item.forEach((op, j) => { start[op] = lane.start[j]; end[op] = lane.end[j]; device[op] = lane.device; });
    lane.instants.item.forEach((op, j) => { start[op] = end[op] = lane.instants.at[j]; device[op] = lane.device; });
  }
  return { start, end, device };
}

// Outputs of each op: their bytes, their readers, and whether they are kept.
function outputsOf(graph) {
  if (graph.outputs) return graph.outputs;
  const outputs = graph.output_bytes.map((bytes, op) => (graph.output_parts[op] || (bytes > 0 ? [bytes] : [])).map((each) => ({ bytes: each, readers: [], kept: false })));
  for (let op = 0, at = 0; op < graph.ops.length; ++op) {
    const all = graph.input_count[op], tensors = all - (graph.after_count[op] || 0);
    for (let k = 0; k < tensors; ++k) outputs[op - graph.inputs[at + k]][graph.input_output[at + k] || 0]?.readers.push(op);
    at += all;
  }
  summed(graph.kept, Int32Array).forEach((op, i) => { const kept = outputs[op][graph.kept_output[i]]; if (kept) kept.kept = true; });
  return graph.outputs = outputs;
}

// Contents of memory, by device: {kind, op, bytes, from, until}.
function holdings(run) {
  if (run.holdings) return run.holdings;
  const { graph, transfers, source } = run, { start, end, device } = placements(run), times = transferTimes(run), outputs = outputsOf(graph);
  const held = source.devices.map(() => []);
  const hold = (on, kind, op, bytes, from, until) => { if (bytes > 0 && from < until) held[on].push({ kind, op, bytes, from, until }); };
  for (const [kind, { op, bytes }] of Object.entries({ parameters: graph.parameters, 'optimizer state': graph.state }))
    summed(op, Int32Array).forEach((each, i) => hold(device[each], kind, each, bytes[i], 0, Infinity));
  summed(graph.workspace.op, Int32Array).forEach((op, i) => hold(device[op], 'workspace', op, graph.workspace.bytes[i], start[op], end[op]));
  const sent = new Map();
  transfers.tensor.forEach((tensor, i) => {
    const key = `${graph.producer[tensor]},${graph.tensor_output[tensor]}`;
    if (!sent.has(key)) sent.set(key, []);
    sent.get(key).push(i);
  });
  outputs.forEach((list, op) => list.forEach(({ bytes, readers, kept }, k) => {
    const home = device[op], last = new Map([[home, end[op]]]), under = sent.get(`${op},${k}`) || [];
    for (const i of under) {
      last.set(home, Math.max(last.get(home), times.end[i]));
      for (const to of receivers(run, i)) last.set(to, times.end[i]);
    }
    for (const reader of readers) last.set(device[reader], Math.max(last.get(device[reader]) || 0, end[reader]));
    hold(home, 'tensors', op, bytes, start[op], kept ? source.makespan_ns : last.get(home));
    for (const i of under) for (const to of receivers(run, i)) hold(to, 'copies of tensors', op, bytes, times.start[i], last.get(to));
  }));
  return run.holdings = held;
}

function heldAt(run, device, time) {
  return holdings(run)[device].filter(({ from, until }) => from <= time && time < until).sort((a, b) => b.bytes - a.bytes || a.op - b.op);
}

function showHeld(run, device, time) {
  const list = heldAt(run, device, time), kinds = new Map(), sum = list.reduce((all, { bytes }) => all + bytes, 0);
  for (const { kind, bytes } of list) {
    const of = kinds.get(kind) || { count: 0, size: 0 };
    ++of.count;
    of.size += bytes;
    kinds.set(kind, of);
  }
  const rows = [...kinds].sort(([, a], [, b]) => b.size - a.size);
  const largest = list.map(({ kind, op, bytes }) => [`${run.graph.ops[op]}, ${kind}`, { count: 1, size: bytes }]);
  byId('area').hidden = false;
  byId('area').replaceChildren(
    element('p', {}, element('b', {}, `${run.source.devices[device].name} at ${formatMoment(time)} holds ${formatBytes(sum)}`),
      element('span', { class: 'soft' }, ` · ${run.source.label} · Escape ends`)),
    element('div', { class: 'columns' }, sumTable('kind', rows), sumTable('largest, by op', largest, 20)));
}
