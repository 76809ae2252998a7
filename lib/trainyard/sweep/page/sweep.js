'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const column = name => data.columns.indexOf(name);
const COLOURS = ['#4477aa', '#ee6677', '#228833', '#ccbb44', '#66ccee', '#aa3377', '#e69f00', '#777777', '#009e73', '#d55e00'];
const UNITS = {
  makespan_ns: 'step time', lower_bound_ns: 'lower bound', exposed_communication_ns: 'exposed communication',
  max_load_ns: 'largest load', peak_bytes: 'peak memory', transferred_bytes: 'bytes transferred', gap: 'gap', busy: 'busy',
};
const title = name => UNITS[name] ?? name;

function scaled(value, steps, base) {
  let i = 0;
  while (i + 1 < steps.length && Math.abs(value) >= base) { value /= base; ++i; }
  return `${+value.toPrecision(3)} ${steps[i]}`.trim();
}
function format(name, value) {
  if (typeof value !== 'number') return String(value);
  if (name.endsWith('_ns')) return scaled(value, ['ns', 'us', 'ms', 's'], 1000);
  if (name.endsWith('_bytes')) return scaled(value, ['B', 'kB', 'MB', 'GB', 'TB'], 1000);
  if (name === 'gap' || name === 'busy') return `${+(100 * value).toPrecision(3)} %`;
  return scaled(value, ['', 'k', 'M', 'G'], 1000);
}

const values = name => {
  const at = column(name);
  return [...new Set(data.rows.map(row => row[at] ?? null))].filter(value => value !== null);
};
const isNumeric = name => values(name).every(value => typeof value === 'number') && values(name).length > 0;
// Keys of the study stand before the first result.
const keys = data.columns.slice(1, column('devices'));
const results = data.columns.slice(column('devices')).filter(isNumeric);
const varying = data.columns.slice(1).filter(name => values(name).length > 1);

function fill(select, names, chosen, none) {
  for (const name of none ? ['', ...names] : names) {
    const option = new Option(name ? title(name) : none, name);
    option.selected = name === chosen;
    select.append(option);
  }
  select.addEventListener('change', draw);
}

const element = (name, attributes, text) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
};
const median = list => {
  const sorted = [...list].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

function axis(list, from, to, log) {
  let low = Math.min(...list), high = Math.max(...list);
  if (log && low <= 0) log = false;
  if (!log && low > 0 && low < high * 0.7) low = 0;
  if (low === high) { low = log ? low / 2 : low - 1; high = log ? high * 2 : high + 1; }
  const way = log ? Math.log : value => value;
  const place = value => from + (way(value) - way(low)) / (way(high) - way(low)) * (to - from);
  const ticks = [];
  if (log) {
    const distinct = [...new Set(list)].sort((a, b) => a - b);
    if (distinct.length <= 8) ticks.push(...distinct);
    else for (let i = 0; i <= 5; ++i) ticks.push(Math.exp(way(low) + i * (way(high) - way(low)) / 5));
  } else {
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(factor => factor * power >= rough) * power;
    for (let tick = Math.ceil(low / step) * step; tick <= high * (1 + 1e-9); tick += step) ticks.push(tick);
  }
  return { place, ticks };
}

function drawPanel(name, rows, x, y, curve, colours) {
  const width = 640, height = 380, left = 76, right = 14, top = 12, bottom = 44;
  const section = document.createElement('section');
  section.className = 'panel';
  const heading = document.createElement('h2');
  heading.textContent = name;
  const svg = element('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${title(y)} over ${title(x)}, ${name}` });
  section.append(heading, svg);
  const xs = axis(rows.map(row => row[column(x)]), left, width - right, byId('log-x').checked);
  const ys = axis(rows.map(row => row[column(y)]), height - bottom, top, byId('log-y').checked);
  for (const tick of ys.ticks) {
    svg.append(element('line', { x1: left, x2: width - right, y1: ys.place(tick), y2: ys.place(tick), class: 'grid' }));
    svg.append(element('text', { x: left - 8, y: ys.place(tick) + 4, 'text-anchor': 'end' }, format(y, tick)));
  }
  for (const tick of xs.ticks)
    svg.append(element('text', { x: xs.place(tick), y: height - bottom + 18, 'text-anchor': 'middle' }, format(x, tick)));
  svg.append(element('text', { x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle' }, title(x)));
  for (const [value, colour] of colours) {
    const mine = rows.filter(row => curve === '' || row[column(curve)] === value);
    const medians = [...new Set(mine.map(row => row[column(x)]))].sort((a, b) => a - b)
      .map(at => [at, median(mine.filter(row => row[column(x)] === at).map(row => row[column(y)]))]);
    if (keys.includes(x) || x === 'devices')
      svg.append(element('polyline', { points: medians.map(([a, b]) => `${xs.place(a)},${ys.place(b)}`).join(' '), class: 'curve', stroke: colour }));
    for (const row of mine) {
      const dot = element('circle', { cx: xs.place(row[column(x)]), cy: ys.place(row[column(y)]), r: 3.2, fill: colour });
      if (row[column('fits')] === false) { dot.setAttribute('fill', 'none'); dot.setAttribute('stroke', colour); }
      const facts = [...keys, y, x, 'fits'].filter((key, i, all) => all.indexOf(key) === i && row[column(key)] != null);
      dot.append(element('title', {}, facts.map(key => `${title(key)}: ${format(key, row[column(key)])}`).join('\n')));
      svg.append(dot);
    }
  }
  return section;
}

function draw() {
  const [x, y, curve, panel] = ['x', 'y', 'curve', 'panel'].map(id => byId(id).value);
  const only = byId('only').value && JSON.parse(byId('only').value);
  const rows = data.rows.filter(row => (!only || row[column(only[0])] === only[1]) && typeof row[column(x)] === 'number' && typeof row[column(y)] === 'number');
  const colours = new Map((curve ? values(curve) : ['all rows']).map((value, i) => [value, COLOURS[i % COLOURS.length]]));
  byId('legend').replaceChildren(...[...colours].map(([value, colour]) => {
    const key = document.createElement('span'), line = document.createElement('i');
    key.className = 'key';
    line.style.background = colour;
    key.append(line, format(curve, value));
    return key;
  }));
  const panels = panel ? values(panel) : [''];
  byId('panels').replaceChildren(...panels.map(value => [value, rows.filter(row => !panel || row[column(panel)] === value)])
    .filter(([, mine]) => mine.length > 0)
    .map(([value, mine]) => drawPanel(panel ? `${value}` : 'All rows', mine, x, y, curve, colours)));
}

if (data.rows.length > 0) {
  const across = ['devices', ...keys.filter(isNumeric), 'ops', 'peak_bytes'].filter(name => values(name).length > 0);
  const first = across.find(name => varying.includes(name)) ?? 'peak_bytes';
  const words = varying.filter(name => keys.includes(name) && !isNumeric(name) && !(name === 'cluster' && first === 'devices'));
  fill(byId('x'), across, first);
  fill(byId('y'), results.filter(name => name !== 'devices'), 'makespan_ns');
  fill(byId('curve'), keys, words.includes('placer') ? 'placer' : words[0] ?? '', 'nothing');
  fill(byId('panel'), keys, words.includes('placer') ? words.find(name => name !== 'placer') ?? '' : words[1] ?? '', 'nothing');
  byId('only').append(new Option('all rows', ''));
  for (const key of varying.filter(name => keys.includes(name)))
    for (const value of values(key)) byId('only').append(new Option(`${key} ${value}`, JSON.stringify([key, value])));
  byId('only').addEventListener('change', draw);
  for (const id of ['log-x', 'log-y']) byId(id).addEventListener('change', draw);
  draw();
}
