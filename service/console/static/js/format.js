// Numbers, times and values as people read them.
const whole = new Intl.NumberFormat("en");

export const count = (value) => (value == null ? "–" : whole.format(value));
export const figure = (value, digits = 3) =>
  value == null || Number.isNaN(value) ? "–" : value.toFixed(digits).replace(/^(-?)0\./, "$1.");
export const percent = (value, digits = 1) =>
  value == null ? "–" : `${(100 * value).toFixed(digits)} %`;
export const plural = (n, singular, many = `${singular}s`) => `${count(n)} ${n === 1 ? singular : many}`;
export function signed(value, digits = 3) {
  if (value == null) return "–";
  const sign = { "-1": "−", 1: "+" }[Math.sign(Number(value.toFixed(digits)))] ?? "";
  return sign + figure(Math.abs(value), digits);
}

export function size(bytes) {
  if (!bytes) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** step;
  return `${value >= 100 || !step ? Math.round(value) : value.toFixed(1)} ${units[step]}`;
}

export function ago(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  if (!(seconds >= 0)) return "now";
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]])
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit} ago`;
  return `${Math.floor(seconds)} s ago`;
}

/** A value of a payload as one line of text. */
export function displayValue(value) {
  if (Array.isArray(value)) return value.map(displayValue).join(", ");
  if (value && typeof value === "object")
    return Object.entries(value).map(([name, inner]) => `${name}: ${displayValue(inner)}`).join(", ");
  return String(value);
}

/** The beginning of a text; a character of two code units is not cut in half. */
export const short = (value, length = 80) =>
  value.length > length ? `${value.slice(0, length - 1).replace(/[\ud800-\udbff]$/, "")}…` : value;

/** A moment in UTC, as precisely as a span of time around it needs: both in milliseconds. */
export function moment(time, span) {
  const text = new Date(time).toISOString();
  const day = 86_400_000;
  if (span > 4000 * day) return text.slice(0, text.indexOf("-", 1));
  if (span > 120 * day) return text.slice(0, 7);
  return span > 3 * day ? text.slice(0, 10) : `${text.slice(0, 10)} ${text.slice(11, 16)}`;
}
