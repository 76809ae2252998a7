// The results of a sweep: curves through medians in panels, and the rows behind them.

const data = JSON.parse(byId('data').textContent);
const column = (name) => data.columns.indexOf(name);
const names = {
  makespan_ns: 'step time', lower_bound_ns: 'lower bound', lower_bound: 'bound by', exposed_communication_ns: 'exposed communication',
  max_load_ns: 'largest load', peak_bytes: 'peak memory', transferred_bytes: 'bytes transferred',
};
const title = (name) => names[name] ?? name.replace(/_/g, ' ');

function format(name, value) {
  if (typeof value !== 'number') return value === null || value === undefined ? '–' : typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value);
  if (name.endsWith('_ns')) return formatTime(value);
  if (name.endsWith('_bytes')) return formatBytes(value);
  if (name === 'gap' || name === 'busy') return formatPercent(value);
  return Number.isInteger(value) ? formatCount(value) : String(+value.toPrecision(4));
}

const values = (name) => {
  const at = column(name);
  return [...new Set(data.rows.map((row) => row[at] ?? null))].filter((value) => value !== null);
};
const isNumeric = (name) => values(name).length > 0 && values(name).every((value) => typeof value === 'number');
const median = (list) => {
  const sorted = [...list].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};
// The keys of the study precede the first result, which is `devices`.
const keys = data.columns.slice(1, column('devices'));
const results = data.columns.slice(column('devices')).filter((name) => name !== 'devices' && isNumeric(name));
const varying = data.columns.slice(1).filter((name) => values(name).length > 1);
const across = ['devices', ...keys.filter(isNumeric), 'ops', 'peak_bytes'].filter((name) => values(name).length > 0);

// The position of a number on an axis, and its ticks: the values themselves if there are few, otherwise round numbers.
function axis(list, from, to, log, most) {
  let low = Math.min(...list), high = Math.max(...list);
  if (log && low <= 0) log = false;
  if (!log && low > 0 && low < high * 0.7) low = 0;
  if (low === high) { low = log ? low / 2 : low - 1; high = log ? high * 2 : high + 1; }
  const way = log ? Math.log : (value) => value, distinct = [...new Set(list)].sort((a, b) => a - b);
  return { place: (value) => from + (way(value) - way(low)) / (way(high) - way(low)) * (to - from), ticks: distinct.length <= Math.min(8, most) ? distinct : roundTicks(low, high, log, most) };
}

// The medians of `y` (or another statistic `of`) by `x`, in ascending order of `x`.
function medians(rows, x, y, of = median) {
  const at = new Map();
  for (const row of rows) {
    if (typeof row[column(y)] !== 'number') continue;
    const key = row[column(x)];
    if (!at.has(key)) at.set(key, []);
    at.get(key).push(row[column(y)]);
  }
  return [...at].sort(([a], [b]) => a - b).map(([value, list]) => [value, of(list)]);
}

class Sweep {
  constructor() {
    this.alone = '';
    const first = across.find((name) => varying.includes(name)) ?? 'peak_bytes';
    const words = varying.filter((name) => keys.includes(name) && !isNumeric(name) && !(name === 'cluster' && first === 'devices'));
    const placers = words.includes('placer'), panel = placers ? words.find((name) => name !== 'placer') : words[1];
    this.fill('x', across, first);
    this.fill('y', results, results.includes('makespan_ns') ? 'makespan_ns' : results[0]);
    this.fill('curve', keys, placers ? 'placer' : words[0] ?? '', 'nothing');
    this.fill('panel', keys, panel ?? '', 'nothing');
    byId('only').append(new Option('all rows', ''));
    for (const key of varying.filter((name) => keys.includes(name)))
      for (const value of values(key)) byId('only').append(new Option(`${title(key)} ${value}`, `${key}=${value}`));
    for (const id of ['x', 'y', 'curve', 'panel', 'only', 'log-x', 'log-y']) byId(id).addEventListener('change', () => { this.alone = ''; this.sorted = ''; this.show(); });
    byId('save-table').addEventListener('click', () => save(`rows ${document.title}`, tableSvg(byId('rows').querySelector('table'))));
    byId('rows').addEventListener('click', (e) => { if (e.target.closest('th')) this.write(); });
    this.first = this.text();
    followTheme(() => this.show());
    addEventListener('resize', () => { clearTimeout(this.waiting); this.waiting = setTimeout(() => this.show(), 150); });
    addEventListener('hashchange', () => { if (location.hash.slice(1) !== this.written) this.apply(); });
    this.apply();
  }

  fill(id, list, chosen, none) {
    for (const name of none ? ['', ...list] : list) byId(id).append(new Option(name ? title(name) : none, name));
    byId(id).value = chosen;
  }

  // The page's settings as the part of the address after '#', so that a copied address shows the same.
  text() {
    const words = new URLSearchParams(), head = byId('rows').querySelector('[aria-sort]');
    for (const id of ['x', 'y', 'curve', 'panel', 'only']) words.set(id, byId(id).value);
    for (const id of ['log-x', 'log-y']) if (byId(id).checked) words.set(id, 1);
    if (this.alone) words.set('alone', this.alone);
    if (head && head !== this.firstHead || head?.getAttribute('aria-sort') === 'descending') words.set('sort', head.cellIndex + (head.getAttribute('aria-sort') === 'descending' ? '-' : ''));
    return words.toString();
  }

  write() {
    this.written = this.text();
    history.replaceState(null, '', '#' + this.written);
  }

  apply() {
    const words = new URLSearchParams(location.hash.slice(1) || this.first);
    for (const id of ['x', 'y', 'curve', 'panel', 'only'])
      if (words.has(id) && [...byId(id).options].some((option) => option.value === words.get(id))) byId(id).value = words.get(id);
    for (const id of ['log-x', 'log-y']) byId(id).checked = words.has(id);
    this.alone = words.get('alone') || '';
    this.sorted = words.get('sort') || '';
    this.show();
  }

  show() {
    const [x, y, curve, panel, only] = ['x', 'y', 'curve', 'panel', 'only'].map((id) => byId(id).value), cut = only.indexOf('=');
    const rows = data.rows.filter((row) => (!only || String(row[column(only.slice(0, cut))]) === only.slice(cut + 1)) && typeof row[column(x)] === 'number' && typeof row[column(y)] === 'number');
    // Curves with the smallest values first. A colour belongs to a value of the key, whichever rows are shown.
    const all = curve ? values(curve) : ['all rows'], of = (value) => rows.filter((row) => !curve || row[column(curve)] === value);
    const curves = all.map((value, i) => ({ value, text: curve ? format(curve, value) : value, colour: deviceColour(i, all.length), rows: of(value) })).filter((each) => each.rows.length);
    const middle = new Map(curves.map((each) => [each, median(each.rows.map((row) => row[column(y)]))]));
    curves.sort((a, b) => middle.get(a) - middle.get(b));
    const shown = curves.filter((each) => !this.alone || each.text === this.alone);
    byId('shown').textContent = `${title(y)[0].toUpperCase()}${title(y).slice(1)} by ${title(x)}${curve ? `, a curve for each ${title(curve)}` : ''}${only ? `, ${byId('only').selectedOptions[0].text} alone` : ''}`;
    document.title = `${document.querySelector('h1').textContent}: ${title(y)} by ${title(x)}`;
    byId('legend').replaceChildren(...curves.map(({ text, colour }) => {
      const line = element('i', { class: 'line' }), button = element('button', { type: 'button', 'aria-pressed': text === this.alone }, line, text);
      line.style.background = colour;
      button.addEventListener('click', () => { this.alone = this.alone === text ? '' : text; this.show(); });
      return button;
    }));
    const visible = shown.flatMap((each) => each.rows), panels = panel ? values(panel) : [''];
    byId('panels').replaceChildren(...panels.flatMap((value) => {
      const mine = shown.map((each) => ({ ...each, rows: each.rows.filter((row) => !panel || row[column(panel)] === value) })).filter((each) => each.rows.length);
      return mine.length ? [this.panel(panel ? `${value}` : 'All rows', mine, x, y)] : [];
    }));
    this.table(visible, y);
    this.write();
  }

  panel(name, curves, x, y) {
    const rows = curves.flatMap((each) => each.rows), width = halfRoom(), height = Math.round(width * 0.6), left = 70, right = 14, top = 12, bottom = 42;
    const chart = svgNode('svg', { class: 'chart', role: 'img', 'aria-label': `${title(y)} by ${title(x)}, ${name}` });
    const lines = keys.includes(x) || x === 'devices', bound = lines && y === 'makespan_ns' && column('lower_bound_ns') >= 0 ? medians(rows, x, 'lower_bound_ns', (list) => Math.min(...list)).filter(([, b]) => b > 0) : [];
    const xs = axis(rows.map((row) => row[column(x)]), left + 10, width - right - 10, byId('log-x').checked, Math.floor(width / 75));
    const ys = axis([...rows.map((row) => row[column(y)]), ...bound.map(([, b]) => b)], height - bottom, top, byId('log-y').checked, 6);
    for (const tick of ys.ticks) chart.append(svgNode('path', { class: 'rule', d: `M${left} ${ys.place(tick)}H${width - right}` }), svgNode('text', { class: 'soft', x: left - 8, y: ys.place(tick) + 4, 'text-anchor': 'end' }, tickText(format(y, tick))));
    for (const tick of xs.ticks) chart.append(svgNode('text', { class: 'soft', x: xs.place(tick), y: height - bottom + 18, 'text-anchor': 'middle' }, tickText(format(x, tick))));
    chart.append(svgNode('text', { class: 'soft', x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle' }, title(x)),
      svgNode('text', { class: 'soft', x: 12, y: (top + height - bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${(top + height - bottom) / 2})` }, title(y)));
    const way = (points) => 'M' + points.map(([a, b]) => `${xs.place(a).toFixed(1)} ${ys.place(b).toFixed(1)}`).join('L');
    if (bound.length) chart.append(svgNode('path', { class: 'bound', d: way(bound) }));
    for (const { colour, rows: mine } of curves) {
      if (lines) chart.append(svgNode('path', { class: 'curve', d: way(medians(mine, x, y)), stroke: colour }));
      for (const row of mine) {
        const fits = row[column('fits')] !== false, facts = [...new Set([...keys, y, x, 'fits'])].filter((key) => column(key) >= 0 && row[column(key)] != null);
        chart.append(svgNode('circle', { cx: xs.place(row[column(x)]).toFixed(1), cy: ys.place(row[column(y)]).toFixed(1), r: 3.2, ...(fits ? { fill: colour } : { fill: 'none', stroke: colour }) },
          svgNode('title', {}, facts.map((key) => `${title(key)}: ${format(key, row[column(key)])}`).join('\n'))));
      }
    }
    const entries = [...curves.map(({ text, colour }) => ({ box: colour, text })), ...(lines ? [{ text: 'a curve goes through medians' }] : []), { text: 'a dot is a row' },
      ...(rows.some((row) => row[column('fits')] === false) ? [{ text: 'an empty one does not fit into memory' }] : []), ...(bound.length ? [{ line: 'bound', text: 'no row can be below: the least of their lower bounds' }] : [])];
    chart.setAttribute('viewBox', `0 0 ${width} ${chartLegend(chart, left, height + 6, width, entries)}`);
    chart.style.maxWidth = 1.15 * width + 'px';
    const button = element('button', { type: 'button', class: 'plain', title: 'Save as SVG' }, 'SVG');
    button.addEventListener('click', () => save(`${document.title}, ${name}`, chartSvg(chart)));
    return element('section', { class: 'panel' }, element('div', { class: 'bar' }, element('h2', {}, name), button), chart);
  }

  // The table of the shown rows, in ascending order of `y`.
  table(rows, y) {
    const most = 500, columns = [...new Set([...keys.filter((key) => varying.includes(key)), 'devices', y, 'makespan_ns', 'lower_bound_ns', 'gap', 'busy', 'exposed_communication_ns', 'peak_bytes', 'fits'])].filter((name) => column(name) >= 0);
    const sorted = [...rows].sort((a, b) => a[column(y)] - b[column(y)]).slice(0, most), words = columns.map((name) => !isNumeric(name) && name !== 'fits');
    const side = (k) => (words[k] ? { class: 'name' } : {});
    const table = element('table', {}, element('thead', {}, element('tr', {}, ...columns.map((name, k) => element('th', { scope: 'col', ...side(k) }, element('button', { type: 'button' }, title(name)))))),
      element('tbody', {}, ...sorted.map((row) => element('tr', {}, ...columns.map((name, k) => element('td', { ...side(k), 'data-value': row[column(name)] ?? '' }, format(name, row[column(name)])))))));
    byId('rows').replaceChildren(table);
    byId('comparison').hidden = !sorted.length;
    byId('cut').textContent = rows.length > most ? `the ${most} least of ${formatCount(rows.length)} rows; results.csv has all` : '';
    makeSortable(table, title(y));
    moveByArrows(table);
    this.firstHead = table.querySelector('[aria-sort]');
    const head = table.tHead.rows[0].cells[parseInt(this.sorted, 10)];
    for (let k = 0; head && k < 2 && head.getAttribute('aria-sort') !== (this.sorted.endsWith('-') ? 'descending' : 'ascending'); ++k) head.querySelector('button').click();
    this.sorted = '';
  }
}

if (data.rows.length > 0) new Sweep();
