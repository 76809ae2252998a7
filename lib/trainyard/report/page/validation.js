// The validation of a prediction: verdict, errors, predicted against measured time of each op, and all placements of a
// ranking.

// A chart with predicted time on the x axis and measured time on the y axis, a line where they are equal, and a band
// where they differ by at most 20 %.
function againstChart(points, { label, legend }) {
  const width = halfRoom(), height = Math.min(420, Math.round(width * 0.8)), left = 66, right = 14, top = 10, bottom = 42, all = points.flatMap(({ predicted, measured }) => [predicted, measured]);
  const low = Math.max(1, Math.min(...all)) / 1.25, high = Math.max(2, ...all) * 1.25, place = (t) => Math.log(Math.max(t, low) / low) / Math.log(high / low);
  const x = (t) => left + place(t) * (width - left - right), y = (t) => height - bottom - place(t) * (height - top - bottom);
  const chart = svgNode('svg', { class: 'chart', role: 'group', 'aria-label': `${label}: predicted against measured` });
  const beyond = (t) => Math.max(low, Math.min(high, t));
  chart.append(svgNode('path', { class: 'allowed', d: `M${[[low, low * 1.2], [high / 1.2, high], [high, high], [high, high / 1.2], [low * 1.2, low], [low, low]].map(([a, b]) => `${x(beyond(a)).toFixed(1)} ${y(beyond(b)).toFixed(1)}`).join('L')}Z` }));
  for (const t of roundTicks(low, high, true, Math.floor(width / 75))) {
    chart.append(svgNode('path', { class: 'rule', d: `M${left} ${y(t).toFixed(1)}H${width - right}M${x(t).toFixed(1)} ${top}V${height - bottom}` }),
      svgNode('text', { class: 'soft', x: left - 8, y: y(t) + 4, 'text-anchor': 'end' }, tickText(formatTime(t))),
      svgNode('text', { class: 'soft', x: x(t), y: height - bottom + 16, 'text-anchor': 'middle' }, tickText(formatTime(t))));
  }
  chart.append(svgNode('path', { class: 'equal', d: `M${x(low)} ${y(low)}L${x(high)} ${y(high)}` }),
    svgNode('text', { class: 'soft', x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle' }, 'predicted'),
    svgNode('text', { class: 'soft', x: 12, y: (top + height - bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${(top + height - bottom) / 2})` }, 'measured'));
  for (const point of points) {
    const dot = svgNode('circle', { class: `dot${point.chosen ? ' chosen' : ''}`, cx: x(point.predicted).toFixed(1), cy: y(point.measured).toFixed(1), r: point.name ? 5.5 : 4 }, svgNode('title', {}, point.text));
    if (point.colour) dot.style.fill = point.colour;
    dot.addEventListener('click', point.click);
    chart.append(dot);
  }
  nameDots(chart, points.filter((point) => point.name).map((point) => ({ x: x(point.predicted), y: y(point.measured), name: point.name })), [left, top, width, height - bottom]);
  const end = chartLegend(chart, left, height + 6, width, [...legend, { line: 'equal', text: 'predicted = measured' }, { band: 'allowed', text: 'within 20 %' }]);
  chart.setAttribute('viewBox', `0 0 ${width} ${end}`);
  return chart;
}

// A chart of the parts of the error, as bars from zero, with their tolerances.
function errorChart(held) {
  const rows = [['step time', held.total_error, held.total_tolerance], ['structure', held.structural_error, held.structural_tolerance], ['op times', held.op_time_error, 0], ['transfer times', held.link_error, 0]];
  const width = halfRoom(), left = 100, right = 70, tall = 30, top = 8, bottom = top + tall * rows.length;
  const most = 1.1 * Math.max(0.01, held.noise_floor, ...rows.flatMap(([, error, allowed]) => [Math.abs(error), allowed])), zero = (left + width - right) / 2;
  const x = (share) => zero + share / most * (zero - left), chart = svgNode('svg', { class: 'chart', role: 'img', 'aria-label': 'Errors of the prediction' });
  rows.forEach(([name, error, allowed], i) => {
    const y = top + i * tall;
    if (allowed > 0) chart.append(svgNode('rect', { class: 'allowed', x: x(-allowed), y: y + 2, width: x(allowed) - x(-allowed), height: tall - 6, rx: 3 }));
    chart.append(svgNode('rect', { class: allowed > 0 && Math.abs(error) > allowed ? 'error bad' : 'error', x: Math.min(zero, x(error)), y: y + 8, width: Math.max(1, Math.abs(x(error) - zero)), height: tall - 18 }),
      svgNode('text', { x: left - 10, y: y + tall / 2 + 3, 'text-anchor': 'end' }, name),
      svgNode('text', { x: width - right + 10, y: y + tall / 2 + 3 }, signedPercent(error)));
  });
  chart.append(svgNode('path', { class: 'rule', d: `M${zero} ${top}V${bottom}` }));
  if (held.noise_floor > 0) chart.append(svgNode('path', { class: 'noise', d: [-1, 1].map((side) => `M${x(side * held.noise_floor)} ${top}V${bottom}`).join('') }));
  const end = chartLegend(chart, left - 90, bottom + 8, width, [{ box: 'var(--accent)', text: '(predicted − measured) / measured' }, { band: 'allowed', text: 'allowed' },
    ...(rows.some(([, error, allowed]) => allowed > 0 && Math.abs(error) > allowed) ? [{ box: 'var(--bad)', text: 'more than that' }] : []),
    ...(held.noise_floor > 0 ? [{ line: 'noise', text: 'noise floor of the machine' }] : [])]);
  chart.setAttribute('viewBox', `0 0 ${width} ${end}`);
  return chart;
}

// A table whose cells are texts or elements; the columns in `words` are left-aligned.
function plainTable(heads, rows, words) {
  const cells = (tag, row) => row.map((cell, k) => element(tag, words.includes(k) ? { class: 'name' } : {}, cell));
  return element('table', { class: 'sums' }, element('thead', {}, element('tr', {}, ...cells('th', heads))), element('tbody', {}, ...rows.map((row) => element('tr', {}, ...cells('td', row)))));
}

class Validation {
  constructor(page) { this.page = page; }

  // Shows the validation of the chosen run, or of the run above it.
  show() {
    const { index } = this.page, of = data.runs.findIndex((run, i) => run.validation && run.drawing && (i === index || run.beneath === index));
    for (const id of ['validation', 'ranking']) byId(id).hidden = true;
    if (of >= 0) this.showOne(of);
    this.showRanking();
  }

  showOne(index) {
    const { page } = this, run = decodeRun(index), { source, graph } = run, held = source.validation, { device } = placements(run);
    const scheme = colouring(run, 'type'), used = new Set(), { op, predicted, measured } = held.ops;
    const name = (d) => source.devices[d].name, go = (each) => () => {
      const lanes = page.view.run.lanes, place = lanes.flatMap((lane, l) => (lane.run.source === source && lane.kind === 'device' ? [[l, lane.item.indexOf(each)]] : [])).find(([, j]) => j >= 0);
      if (!place) return;
      page.choose(place);
      page.controls.reveal(place);
      byId('timeline').scrollIntoView({ block: 'nearest' });
    };
    const shown = op.slice(0, 2000), points = shown.flatMap((each, i) => {
      if (!predicted[i] || !measured[i]) return [];  // has no position on a logarithmic axis
      const colour = scheme.op(each, graph);
      used.add(colour);
      return [{ predicted: predicted[i], measured: measured[i], colour: scheme.colours[colour], click: go(each),
        text: `${graph.ops[each]} on ${name(device[each])}\npredicted ${formatTime(predicted[i])}, measured ${formatTime(measured[i])}` }];
    });
    const legend = scheme.names.flatMap((text, k) => (text && used.has(k) ? [{ box: scheme.colours[k], text }] : []));
    const worst = shown.slice(0, 15).map((each, i) => {
      const button = element('button', { type: 'button', class: 'link', title: 'Show it in the timeline' }, graph.ops[each]);
      button.addEventListener('click', go(each));
      return [button, name(device[each]), formatTime(predicted[i]), formatTime(measured[i]), signedPercent((predicted[i] - measured[i]) / Math.max(1, measured[i])), held.sources[held.ops.source[i]]];
    });
    const tables = [plainTable(['ops furthest off', 'device', 'predicted', 'measured', 'error', 'known by'], worst, [0, 1, 5]),
      plainTable(['device', 'peak predicted', 'measured', 'gap between ops'], source.devices.map(({ name: text }, d) => [text, formatBytes(held.peaks[d][0]), formatBytes(held.peaks[d][1]), formatTime(held.gaps_ns[d])]), [0])];
    if (held.links.length) tables.push(plainTable(['transfers', 'number', 'predicted', 'measured', 'error'], held.links.map(([from, to, count, p, m]) => [`${name(from)} → ${name(to)}`, formatCount(count), formatTime(p), formatTime(m), signedPercent((p - m) / Math.max(1, m))]), [0]));
    const tag = element('span', { class: `tag ${held.verdict === 'pass' ? 'good' : held.verdict === 'fail' ? 'bad' : ''}` }, held.verdict);
    putChart('validation', `Prediction against measurement, ${source.label}`, element('p', {}, tag, ` ${held.why}`, element('br'), element('span', { class: 'soft' }, held.text)),
      element('div', { class: 'columns' }, element('div', {}, errorChart(held), element('div', { class: 'scroll' }, tables[0])),
        element('div', {}, againstChart(points, { label: 'ops', legend }), op.length > shown.length ? element('p', { class: 'soft' }, `the ${formatCount(shown.length)} ops furthest off, of ${formatCount(op.length)}`) : '')),
      element('div', { class: 'columns' }, ...tables.slice(1).map((table) => element('div', { class: 'scroll' }, table))));
  }

  showRanking() {
    const { page } = this, held = data.runs.map((run, index) => ({ index, run })).filter(({ run }) => run.validation);
    if (!data.ranking || held.length < 2) return;
    const points = held.map(({ index, run }) => ({ predicted: run.makespan_ns, measured: run.validation.measured_ns, name: run.label.replace(/, predicted$/, ''), chosen: index === page.index,
      text: `${run.label}: ${formatTime(run.makespan_ns)}, measured ${formatTime(run.validation.measured_ns)}, ${signedPercent(run.validation.total_error)}`, click: () => page.show(index) }));
    putChart('ranking', `${held.length} placements, predicted against measured`, element('p', {}, data.ranking), againstChart(points, { label: 'placements', legend: [{ dot: 'dot', text: 'a placement' }, { dot: 'dot chosen', text: 'the chosen one' }] }));
  }
}
