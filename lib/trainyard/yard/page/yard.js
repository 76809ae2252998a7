// The Yard: ranks, performance profiles, curves over effort, and where each placer wins.

const data = JSON.parse(byId('data').textContent);
const colours = new Map(data.placers.map(({ placer }, k) => [placer, deviceColour(k, data.placers.length)]));

function table(id, title, columns, rows, best) {
  const made = element('table', {}, element('thead', {}, element('tr', {}, ...columns.map(([name], k) => element('th', { scope: 'col', ...(k ? {} : { class: 'name' }) }, element('button', { type: 'button' }, name))))),
    element('tbody', {}, ...rows.map((row) => element('tr', {}, ...columns.map(([, value, text], k) => element('td', { 'data-value': value(row) ?? '', ...(k ? {} : { class: 'name' }) }, value(row) == null ? '–' : text ? text(value(row)) : String(value(row))))))));
  byId(id).hidden = false;
  byId(id).replaceChildren(element('div', { class: 'bar' }, element('h2', {}, title)), element('div', { class: 'scroll' }, made));
  makeSortable(made, best);
  moveByArrows(made);
}

// A chart of curves {name, points}. `across` and `up` describe the axes; their `text` formats a number.
function curves(id, title, list, across, up) {
  const width = halfRoom() * 1.4, height = width * 0.5, left = 70, right = 14, top = 12, bottom = 42;
  const chart = svgNode('svg', { class: 'chart', role: 'img', 'aria-label': title });
  const points = list.flatMap((curve) => curve.points);
  const axis = ({ log, low, high }, k, from, to) => {
    const way = log ? Math.log : (value) => value, all = points.map((point) => point[k]);
    let a = low ?? Math.min(...all), b = high ?? Math.max(...all);
    if (a === b) { a = a * 0.99; b = b * 1.01 || 1; }
    return { place: (value) => from + (way(value) - way(a)) / (way(b) - way(a)) * (to - from), ticks: roundTicks(a, b, log, 7) };
  };
  const xs = axis(across, 0, left + 10, width - right - 10), ys = axis(up, 1, height - bottom, top);
  for (const tick of ys.ticks) chart.append(svgNode('path', { class: 'rule', d: `M${left} ${ys.place(tick)}H${width - right}` }), svgNode('text', { class: 'soft', x: left - 8, y: ys.place(tick) + 4, 'text-anchor': 'end' }, up.text(tick)));
  for (const tick of xs.ticks) chart.append(svgNode('text', { class: 'soft', x: xs.place(tick), y: height - bottom + 18, 'text-anchor': 'middle' }, across.text(tick)));
  chart.append(svgNode('text', { class: 'soft', x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle' }, across.name));
  for (const { name, points: mine } of list)
    chart.append(svgNode('path', { class: 'curve', stroke: colours.get(name), d: 'M' + mine.map(([x, y]) => `${xs.place(x).toFixed(1)} ${ys.place(y).toFixed(1)}`).join('L') }, svgNode('title', {}, name)));
  chart.setAttribute('viewBox', `0 0 ${width} ${chartLegend(chart, left, height + 6, width, list.map(({ name }) => ({ box: colours.get(name), text: name })))}`);
  putChart(id, title, chart);
}

// The smallest makespan of any placer, by instance.
const least = data.instances.map((_, i) => Math.min(...data.placers.map(({ steps_ns: steps }) => steps[i]?.[0] ?? Infinity)));

// The fraction of instances within each ratio of the smallest makespan, as a step function.
function profile({ placer, steps_ns: steps }) {
  const ratios = steps.map((cell, i) => (cell ? Math.max(1, cell[0] / Math.max(1, least[i])) : Infinity)).filter((ratio) => ratio <= 2).sort((a, b) => a - b);
  const points = [[1, ratios.filter((ratio) => ratio === 1).length / steps.length]];
  for (const [k, ratio] of ratios.entries()) if (ratio > 1) points.push([ratio, points.at(-1)[1]], [ratio, (k + 1) / steps.length]);
  points.push([2, points.at(-1)[1]]);
  return { name: placer, points };
}

function draw() {
  const ratio = (value) => value.toFixed(4);
  table('ranks', 'Ranks', [['placer', (p) => p.placer], ['mean rank', (p) => p.rank, (v) => v.toFixed(2)], ['over the bound', (p) => p.over_bound, ratio], ['over the least', (p) => p.over_best, ratio], ['wins', (p) => p.wins], ['alone', (p) => p.alone], ['alone, within noise', (p) => p.within_noise], ['optimal', (p) => p.optimal], ['answers', (p) => p.answers]], data.placers, 'mean rank');
  if (data.instances.length) curves('profiles', 'Share of instances within a ratio of the least step', data.placers.map(profile), { name: 'step over the least step of any placer', log: true, low: 1, high: 2, text: (v) => `${v} ×` }, { low: 0, high: 1, text: (v) => `${Math.round(100 * v)} %` });
  const points = (placer) => data.curves.filter((point) => point.placer === placer).map((point) => [point.evaluations ?? Math.max(1, point.budget), point.over_bound]);
  const searched = [...new Set(data.curves.map(({ placer }) => placer))].map((name) => ({ name, points: points(name) }));
  if (searched.length) curves('curves', 'Step over the bound, by evaluations', searched, { name: data.curves.every(({ evaluations }) => evaluations) ? 'evaluations' : 'evaluations, or the budget where they are not known', log: true, text: (v) => formatCount(v) }, { text: (v) => String(+v.toPrecision(5)) });
  const families = [...new Set(data.instances.map(({ family }) => family))];
  const wins = (family, placer) => data.instances.filter((instance) => instance.family === family && instance.winners.includes(placer)).length;
  table('families', 'Wins by family', [['family', (f) => f], ['instances', (f) => data.instances.filter(({ family }) => family === f).length], ...data.placers.map(({ placer }) => [placer, (f) => wins(f, placer)])], families, 'family');
  table('instances', 'Instances', [['instance', (i) => i.instance], ['tier', (i) => i.tier], ['best step', (i) => i.best_ns, formatTime], ['bound', (i) => i.bound_ns, formatTime], ['step over bound', (i) => i.bound_ns && i.best_ns / i.bound_ns, ratio], ['won by', (i) => (i.winners.length > 3 ? `${i.winners.length} placers` : i.winners.join(', ')) + (i.within_noise ? ' (within noise)' : '')]], data.instances, 'instance');
}

followTheme(() => {});
draw();
