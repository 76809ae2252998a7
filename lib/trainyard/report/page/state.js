// The page's settings as the part of the address after '#', so that a copied address shows the same.

function readState() {
  const words = new URLSearchParams(location.hash.slice(1)), number = (name) => (words.has(name) ? Number(words.get(name)) : NaN);
  return {
    run: number('run'), below: words.get('below'), from: number('from'), to: number('to'), colour: words.get('colour'),
    critical: words.has('critical'), idle: words.has('idle'), search: words.get('search') || '',
    span: (words.get('span') || '').split('.').map(Number), layers: words.get('layers') || '',
    alone: words.has('alone') ? number('alone') : -1, area: (words.get('area') || '').split('.').map(Number), sort: words.get('sort') || '',
  };
}

class State {
  constructor(page) {
    this.page = page;
    this.waiting = 0;
    this.table = document.querySelector('#comparison table');
    this.firstSort = this.sort();
    this.table.tHead.addEventListener('click', () => this.changed());
    addEventListener('hashchange', () => { if (location.hash.slice(1) !== this.written && /[#&]run=/.test(location.hash)) this.apply(); });
  }

  // Writes the state with a delay, once for many changes, because browsers limit the rate of changes of an address.
  changed() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.write(), 200);
  }

  // The column by which the table is sorted: "3", or "3-" in descending order.
  sort() {
    const head = this.table.querySelector('[aria-sort]');
    return head ? head.cellIndex + (head.getAttribute('aria-sort') === 'descending' ? '-' : '') : '';
  }

  sortBy(wanted) {
    const head = this.table.tHead.rows[0].cells[parseInt(wanted, 10)];
    for (let k = 0; head && k < 2 && this.sort() !== wanted; ++k) head.querySelector('button').click();
  }

  text() {
    const { page } = this, { view } = page, words = new URLSearchParams({ run: page.index });
    if (page.below !== data.runs[page.index].beneath) words.set('below', page.below ?? 'none');
    if (view.from > 0 || view.to < view.end) { words.set('from', Math.round(view.from)); words.set('to', Math.round(view.to)); }
    if (page.by !== 'phase') words.set('colour', page.by);
    for (const name of ['critical', 'idle']) if (byId(name).checked) words.set(name, 1);
    if (byId('search').value.trim()) words.set('search', byId('search').value.trim());
    if (page.picked) words.set('layers', page.picked);
    if (page.alone >= 0) words.set('alone', page.alone);
    if (view.range) words.set('area', [...view.range.slice(0, 2), ...(view.range[2] || [])].map(Math.round).join('.'));
    if (this.sort() !== this.firstSort) words.set('sort', this.sort());
    if (view.chosen) words.set('span', view.chosen.join('.'));
    return words.toString();
  }

  write() {
    this.written = this.text();
    history.replaceState(null, '', '#' + this.written);
  }

  apply() {
    const state = readState(), { page } = this, { view } = page;
    if (page.drawn.includes(state.run)) {
      page.show(state.run, state.below === null ? undefined : state.below === 'none' ? null : Number(state.below));
    }
    const radio = state.colour && document.querySelector(`input[name=colour][value="${CSS.escape(state.colour)}"]`);
    if (radio) radio.click();
    for (const name of ['critical', 'idle']) if (byId(name).checked !== state[name]) byId(name).click();
    byId('search').value = state.search;
    page.controls.search(state.search);
    if (state.layers !== page.picked) page.pickLayers(state.layers);
    if (state.to > state.from) view.setWindow(state.from, state.to);
    if (state.alone !== page.alone) page.isolate(state.alone);
    if (state.sort) this.sortBy(state.sort);
    const [a, b, ...rows] = state.area;
    if (b > a) page.selectArea([a, b, rows.length === 2 ? rows : null]);
    const [lane, span] = state.span;
    if (view.run.lanes[lane]?.item[span] !== undefined) page.choose([lane, span]);
  }
}
