// Sums over a selected area of the timeline: the part of each span inside it, by name, type and row.

function areaSums(view, [a, b, rows]) {
  const from = Math.max(0, Math.min(a, b)), to = Math.min(view.end, Math.max(a, b)), sums = new Map();
  let ops = 0, transfers = 0, busy = 0, carried = 0, devices = 0;
  for (const row of view.rows) {
    if (!row.lane || (rows && (row.y < rows[0] || row.y + row.height > rows[1]))) continue;
    const { lane } = row, { graph } = lane.run, device = lane.kind === 'device';
    devices += device;
    for (let j = upperBound(lane.end, from); j < lane.item.length && lane.start[j] < to; ++j) {
      const inside = Math.min(lane.end[j], to) - Math.max(lane.start[j], from), op = opOf(lane, lane.item[j]);
      const type = device ? graph.types[graph.type[op]] || 'no type' : 'transfer', layer = graph.layers[graph.layer[op]] || nameOf(lane, lane.item[j]);
      for (const key of [`type\n${type}`, `layer\n${layer}${device ? '' : ' (transfer)'}`]) {
        const sum = sums.get(key) || { count: 0, time: 0 };
        ++sum.count;
        sum.time += inside;
        sums.set(key, sum);
      }
      if (device) { ++ops; busy += inside; } else { ++transfers; carried += inside; }
    }
  }
  const by = (kind) => [...sums].filter(([key]) => key.startsWith(kind + '\n')).map(([key, sum]) => [key.slice(kind.length + 1), sum])
    .sort(([x, s], [y, t]) => t.time - s.time || (x < y ? -1 : 1));
  return { from, to, ops, transfers, busy, carried, devices, types: by('type'), layers: by('layer') };
}

function sumTable(head, rows, most = 12) {
  const body = element('tbody'), sized = rows[0]?.[1].size !== undefined, amount = (sum) => (sized ? sum.size : sum.time);
  const longest = rows.length ? amount(rows[0][1]) : 1;
  for (const [name, sum] of rows.slice(0, most)) {
    const bar = element('i'), meter = element('span', { class: 'meter' }, bar);
    bar.style.width = 100 * amount(sum) / Math.max(1, longest) + '%';
    body.append(element('tr', {}, element('td', { class: 'name' }, name), element('td', {}, formatCount(sum.count)), element('td', {}, sized ? formatBytes(sum.size) : formatTime(sum.time)), element('td', { class: 'bars' }, meter)));
  }
  if (rows.length > most) body.append(element('tr', {}, element('td', { class: 'name soft', colspan: 4 }, `and ${formatCount(rows.length - most)} more`)));
  return element('table', { class: 'sums' }, element('thead', {}, element('tr', {}, element('th', { class: 'name' }, head), element('th', {}, sized ? 'number' : 'spans'), element('th', {}, sized ? 'bytes' : 'time'), element('th'))), body);
}

function showArea(view, range) {
  const area = byId('area');
  area.hidden = !range;
  if (!range) return area.replaceChildren();
  const sums = areaSums(view, range), wide = Math.max(1, sums.to - sums.from);
  area.replaceChildren(
    element('p', {}, element('b', {}, `${formatMoment(sums.from)} to ${formatMoment(sums.to)}, ${formatTime(wide)}`),
      element('span', { class: 'soft' }, ` · ${formatOps(sums.ops)}, ${formatTime(sums.busy)} on ${sums.devices} devices` +
        (sums.devices ? ` (busy ${formatPercent(sums.busy / wide / sums.devices)})` : '') + ` · ${formatCount(sums.transfers)} spans of transfers, ${formatTime(sums.carried)} · z zooms, Escape ends`)),
    element('div', { class: 'columns' }, sumTable('type', sums.types), sumTable('layer', sums.layers)));
}
