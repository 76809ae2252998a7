// Puts the parts together.

class Page {
  constructor() {
    this.view = new View(byId('canvas'));
    this.controls = new Controls(this.view, this);
    this.view.onDraw = () => this.controls.drawOverview();
    this.by = 'phase';
    this.alone = -1;
    this.drawn = data.runs.map((run, index) => index).filter((index) => data.runs[index].drawing);
    const select = byId('run');
    for (const index of this.drawn) select.append(element('option', { value: index }, data.runs[index].label));
    select.addEventListener('change', () => this.show(Number(select.value)));
    for (const radio of document.getElementsByName('colour')) {
      radio.addEventListener('change', () => { this.by = radio.value; this.alone = -1; this.recolour(); });
    }
    byId('critical').addEventListener('change', () => this.refreshShown());
    byId('idle').addEventListener('change', () => this.layOut());
    const table = document.querySelector('#comparison table');
    makeSortable(table);
    for (const row of table.tBodies[0].rows) {
      if (row.classList.contains('drawn')) row.addEventListener('click', () => this.show(Number(row.dataset.run)));
    }
    byId('theme').addEventListener('click', () => {
      const root = document.documentElement;
      root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
      this.restyle();
    });
    addEventListener('resize', () => this.view.resize());
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const follow = () => { document.documentElement.dataset.theme = dark.matches ? 'dark' : 'light'; };
    follow();
    dark.addEventListener('change', () => { follow(); this.restyle(); });
    let theme = '';
    addEventListener('beforeprint', () => {
      theme = document.documentElement.dataset.theme;
      document.documentElement.dataset.theme = 'light';
      this.view.printing = true;
      this.restyle();
    });
    addEventListener('afterprint', () => {
      document.documentElement.dataset.theme = theme;
      this.view.printing = false;
      this.restyle();
    });
    byId('theme').hidden = false;
    byId('timeline').hidden = !this.drawn.length;
    if (this.drawn.length) this.show(this.drawn.includes(data.open) ? data.open : this.drawn[0]);
  }

  restyle() {
    this.controls.overviewKey = '';
    this.view.resize();
  }

  colourKey() { return `${this.index} ${this.by} ${document.documentElement.dataset.theme}`; }

  show(index) {
    this.index = index;
    const run = withBeneath(decodeRun(index));
    byId('run').value = index;
    for (const row of document.querySelectorAll('#comparison tbody tr')) {
      const chosen = Number(row.dataset.run) === index;
      row.classList.toggle('chosen', chosen);
      row.querySelector('.pick-run')?.setAttribute('aria-pressed', chosen);
    }
    showCards(run.source);
    byId('idle-box').hidden = !run.lanes.some((l) => l.kind !== 'device' && !l.item.length && !l.instants.item.length);
    byId('canvas').setAttribute('aria-label', `Timeline of ${run.source.label}: ${formatCount(run.graph.ops.length)} ops on ` +
      `${run.source.devices.length} devices, ${formatTime(run.source.makespan_ns)}`);
    this.view.run = run;
    this.alone = -1;
    this.layOut(true);
    this.choose(null);
  }

  layOut(whole = false) {
    this.view.setRun(this.view.run, byId('idle').checked);
    if (whole) [this.view.from, this.view.to] = [0, this.view.end];
    this.recolour();
  }

  recolour() {
    this.view.setColours(colouring(this.view.run, this.by));
    this.showLegend();
    this.controls.search(byId('search').value);
    this.view.resize();
  }

  // Of the three ways to single out spans, all that are on must agree.
  refreshShown() {
    const critical = byId('critical').checked, searching = byId('search').value.trim() !== '', alone = this.alone;
    const found = new Set(searching ? this.controls.matches.map(String) : []);
    this.view.showPath = critical;
    const index = new Map(this.view.run.lanes.map((lane, l) => [lane, l]));
    this.view.setShown(!critical && !searching && alone < 0 ? null : (lane, j) =>
      (!critical || lane.critical[j]) && (!searching || found.has(`${index.get(lane)},${j}`)) && (alone < 0 || lane.colour[j] === alone));
    this.view.redraw();
  }

  isolate(colour) {
    this.alone = this.alone === colour ? -1 : colour;
    [...byId('legend').querySelectorAll('button')].forEach((b) => b.setAttribute('aria-pressed', Number(b.dataset.colour) === this.alone));
    this.refreshShown();
  }

  showLegend() {
    const { scheme, run } = this.view, legend = byId('legend'), used = new Set();
    for (const lane of run.lanes) for (const colour of lane.colour) used.add(colour);
    legend.replaceChildren();
    if (scheme.ramp) {
      const ramp = element('span', { class: 'ramp' });
      ramp.style.background = `linear-gradient(90deg, ${scheme.colours.join(', ')})`;
      const names = scheme.ramp.filter(Boolean);
      legend.append(element('span', { class: 'note' }, names[0] || 'no layers', ramp, names.length > 1 ? names[names.length - 1] : '',
        `· ${formatCount(names.length)} layers in the order of the graph`));
    }
    scheme.names.forEach((name, colour) => {
      if (!name || !used.has(colour)) return;
      const swatch = element('i');
      swatch.style.background = scheme.colours[colour];
      const button = element('button', { type: 'button', 'aria-pressed': 'false', 'data-colour': colour }, swatch, name);
      button.addEventListener('click', () => this.isolate(colour));
      legend.append(button);
    });
    if (run.lanes.some((lane) => lane.instants.item.length)) legend.append(element('span', { class: 'note' }, '▲ takes no time'));
  }

  facts([index, j]) {
    const { run } = this.view, lane = run.lanes[index], item = lane.item[j], op = opOf(run, lane, item), { graph } = run;
    const facts = [['start', formatMoment(lane.start[j])], ['duration', formatTime(lane.end[j] - lane.start[j])]];
    const device = (d) => run.source.devices[d].name;
    if (lane.kind === 'device') {
      facts.unshift(['on', lane.name]);
      if (graph.types[graph.type[op]]) facts.push(['type', graph.types[graph.type[op]]]);
      if (graph.layers[graph.layer[op]]) facts.push(['layer', graph.layers[graph.layer[op]]]);
      facts.push(['phase', data.phases[graph.phase[op]]], ['writes', formatBytes(graph.output_bytes[op])],
        ['waits for', formatOps(graph.producers(op).length)], ['waited for by', formatOps(graph.readers(op).length)]);
    } else {
      const t = run.transfers, also = run.source.drawing.transfers.also_to?.[item];
      facts.unshift(['transfer', `${device(t.from[item])} → ${[t.to[item], ...(also || [])].map(device).join(', ')}`]);
      facts.push(['bytes', formatBytes(graph.tensor_bytes[t.tensor[item]])], ['made by', graph.ops[op]]);
      if (t.waited[item] > 0) facts.push(['waited', formatTime(t.waited[item])]);
    }
    if (lane.critical[j]) facts.push(['', 'on the critical path']);
    return { name: nameOf(run, lane, item), facts };
  }

  choose(mark) {
    this.view.chosen = mark;
    const status = byId('status');
    status.replaceChildren();
    if (mark) {
      const { name, facts } = this.facts(mark);
      status.append(element('b', {}, name), ' ', element('span', { class: 'soft' }, facts.map(([k, v]) => `${k} ${v}`.trim()).join(' · ')));
    }
    this.view.redraw();
  }

  showTip(found, x, y) {
    const tip = byId('tip'), list = element('dl');
    let name, facts;
    if (found.j === undefined) {
      const { curve, device } = found.row, run = this.view.run.source, at = Math.max(0, upperBound(curve.at, found.time) - 1);
      const capacity = run.devices[device].capacity_bytes;
      name = `Memory of ${run.devices[device].name}`;
      facts = [['at', formatMoment(Math.max(0, found.time))], ['held', formatBytes(curve.held[at])],
        ...(capacity === null ? [] : [['capacity', formatBytes(capacity)]]), ['peak', formatBytes(run.devices[device].peak_bytes)]];
    } else ({ name, facts } = this.facts([found.row.index, found.j]));
    for (const [term, value] of facts) list.append(element('dt', {}, term), element('dd', {}, value));
    tip.replaceChildren(element('b', {}, name), list);
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(innerWidth - tip.offsetWidth - 8, x + 16)) + 'px';
    tip.style.top = (y + tip.offsetHeight + 24 > innerHeight ? y - tip.offsetHeight - 12 : y + 16) + 'px';
  }

  hideTip() { byId('tip').hidden = true; }
}

addEventListener('error', (e) => { document.documentElement.dataset.scriptError = e.message; });
const began = performance.now();
const page = new Page();
document.documentElement.dataset.firstDraw = (performance.now() - began).toFixed(1);
