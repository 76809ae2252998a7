'use strict';
// HTML elements, and tables that can be sorted, and navigated by keys.

const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') made.className = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A click on a column's head sorts by it, a second click in descending order. `best` is marked as the
// sorted column if the rows are in its order.
function makeSortable(table, best) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const text = row.cells[column].dataset.value, number = Number(text);
    return text === '' || Number.isNaN(number) ? text : number;
  };
  const time = heads.findIndex((head) => head.textContent === best), order = [...body.rows].map((row) => value(row, time));
  if (order.every((at, i) => i === 0 || order[i - 1] <= at)) heads[time]?.setAttribute('aria-sort', 'ascending');
  heads.forEach((head, column) => {
    head.querySelector('button')?.addEventListener('click', () => {
      const descending = head.getAttribute('aria-sort') === 'ascending';
      heads.forEach((h) => h.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      const rows = [...body.rows].map((row) => [value(row, column), row]);
      rows.sort(([a], [b]) => {  // unknown values are last in both orders
        if (a === '' || b === '') return (a === '') - (b === '');
        const order = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
        return descending ? -order : order;
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
}

// One tab stop for the whole table; arrow keys move between rows and along the heads.
function moveByArrows(table) {
  const stops = () => [...table.rows].map((row) => [...row.querySelectorAll('button')]).filter((row) => row.length);
  for (const button of stops().flat()) button.tabIndex = -1;
  const first = table.tBodies[0].querySelector('.pick-run') || stops().flat()[0];
  if (first) first.tabIndex = 0;
  const enter = (button) => {
    for (const other of stops().flat()) other.tabIndex = -1;
    button.tabIndex = 0;
    button.focus();
  };
  table.addEventListener('keydown', (e) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key] || [0, 0];
    if (!down && !right) return;
    const rows = stops(), row = rows.findIndex((buttons) => buttons.includes(e.target)), column = rows[row]?.indexOf(e.target);
    const next = rows[row + down], button = next?.[Math.min(next.length - 1, (down ? (row === 0 || row + down === 0 ? 0 : column) : column) + right)];
    if (!button) return;
    e.preventDefault();
    e.stopPropagation();
    enter(button);
  });
}

// The theme: that of the system until the button is pressed, and light in print. `changed` is called after each change,
// `printing` before and after printing.
function followTheme(changed, printing = () => {}) {
  const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)');
  let before = '';
  const set = (theme) => { root.dataset.theme = theme; };
  const follow = () => set(dark.matches ? 'dark' : 'light');
  follow();
  dark.addEventListener('change', () => { follow(); changed(); });
  byId('theme').addEventListener('click', () => { set(root.dataset.theme === 'dark' ? 'light' : 'dark'); changed(); });
  addEventListener('beforeprint', () => { before = root.dataset.theme; set('light'); printing(true); changed(); });
  addEventListener('afterprint', () => { set(before); printing(false); changed(); });
  byId('theme').hidden = false;
}
