// Numbers as texts.

const thin = '\u202f';

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 9.995 ? 1 : 2);
}
function scaled(value, units) {
  if (Math.abs(value) < 1e3) return Math.round(value) + thin + units[0][1];
  let [factor, unit] = units[0];
  for (const [f, u] of units) if (Math.abs(value) >= f * 0.99995) [factor, unit] = [f, u];
  return digits(value / factor) + thin + unit;
}
const timeUnits = [[1, 'ns'], [1e3, 'µs'], [1e6, 'ms'], [1e9, 's']];
const byteUnits = [[1, 'B'], [1e3, 'kB'], [1e6, 'MB'], [1e9, 'GB'], [1e12, 'TB']];
const formatTime = (ns) => scaled(ns, timeUnits);
// A point in time, with three decimals: with a duration's decimals, neighbours would look equal.
function formatMoment(ns) {
  const [factor, unit] = timeUnits.filter(([f]) => ns >= f).pop() || timeUnits[0];
  return (ns / factor).toFixed(factor > 1 ? 3 : 0) + thin + unit;
}
const formatBytes = (bytes) => scaled(bytes, byteUnits);
const formatCount = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ',');
const formatOps = (count) => `${formatCount(count)} op${count === 1 ? '' : 's'}`;
const formatPercent = (share) => (100 * share).toFixed(Math.abs(100 * share) < 9.995 ? 2 : 1) + thin + '%';
const signedPercent = (share) => (share > 0 ? '+' : share < 0 ? '−' : '') + formatPercent(Math.abs(share));

// A number on an axis, without trailing zeros: "20 µs".
const tickText = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');
