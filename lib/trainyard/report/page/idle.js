// The cause of a device's idle time: what its next op waits for, according to the run.

// The last transfer to the device that the op waits for, and the last op, on any device.
function lastAwaited(run, op, device, start) {
  const producers = run.graph.producers(op), times = transferTimes(run), sent = transfersOf(run);
  let transfer = -1, producer = -1;
  for (const i of producers.flatMap((p) => sent[p])) {
    if (!receivers(run, i).includes(device) || !(times.end[i] <= start)) continue;
    if (transfer < 0 || times.end[i] > times.end[transfer]) transfer = i;
  }
  const endOf = (p) => { const at = run.placeOfOp[p]; return at ? run.lanes[at[0]].end[at[1]] : 0; };
  for (const p of producers) if (producer < 0 || endOf(p) > endOf(producer)) producer = p;
  return { transfer, producer, producerEnd: producer < 0 ? 0 : endOf(producer) };
}

// Name and facts about an idle moment of a device or a link.
function idleFacts(lane, time) {
  const next = upperBound(lane.start, time), { run } = lane, device = (d) => run.source.devices[d].name;
  const since = next > 0 ? lane.end[next - 1] : 0, facts = [['since', formatMoment(since)]];
  if (next === lane.start.length) return { name: `${lane.name}: done`, facts: [...facts, ['', 'nothing is left to do here in this step']] };
  const start = lane.start[next];
  facts.push(['until', formatMoment(start)], ['idle for', formatTime(start - since)], ['next', nameOf(lane, lane.item[next])]);
  if (lane.kind !== 'device') return { name: `${lane.name}: idle`, facts };
  const { graph, transfers } = run, times = transferTimes(run);
  const { transfer, producer, producerEnd } = lastAwaited(run, lane.item[next], lane.device, start);
  if (transfer >= 0 && times.end[transfer] > time) {
    const sent = times.start[transfer], maker = graph.producer[transfers.tensor[transfer]];
    facts.push(['transfer', `${graph.tensors[transfers.tensor[transfer]]}, ${formatBytes(graph.tensor_bytes[transfers.tensor[transfer]])}`],
      ['from', device(transfers.from[transfer])]);
    if (sent <= time) facts.push(['sent', `${formatMoment(sent)} to ${formatMoment(times.end[transfer])}`]);
    const made = run.placeOfOp[maker];
    if (made && run.lanes[made[0]].end[made[1]] > time)
      return { name: `${lane.name}: awaits op ${graph.ops[maker]}`, facts: [...facts, ['op ends', formatMoment(run.lanes[made[0]].end[made[1]])]] };
    return { name: `${lane.name}: awaits a transfer`, facts: [...facts, ...(sent > time ? [['', 'made, and waits for its link']] : [])] };
  }
  if (producer >= 0 && producerEnd > time) {
    facts.push(['which ends', formatMoment(producerEnd)]);
    return { name: `${lane.name}: awaits op ${graph.ops[producer]}`, facts };
  }
  return { name: `${lane.name}: idle`, facts: [...facts, ['', 'all that its next op needs is here: a launch gap, or its place in the order']] };
}
