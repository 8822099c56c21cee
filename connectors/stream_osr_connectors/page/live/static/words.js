// Formatting of numbers and of text from the data.

const LONGEST = 300;
const GAP = " ... ";
const SHAPELESS = /[\p{C}\p{Z}]/gu;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

const counts = new Intl.NumberFormat("en");
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const percents = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

// Text from the data in one line. Control characters, direction marks and invisible characters are escaped.
export function printable(value, most = LONGEST) {
  const text =
    typeof value === "string" ? value : value === null || value === undefined ? "none" : JSON.stringify(value);
  return text === "" ? "(empty)" : cut(cut(text, most).replace(SHAPELESS, escaped), most);
}

function escaped(c) {
  if (c === " ") return c;
  const code = c.codePointAt(0);
  if (SHORT[c]) return SHORT[c];
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

function cut(text, most) {
  if (text.length <= most) return text;
  const end = Math.floor((most - GAP.length) / 3);
  return text.slice(0, most - GAP.length - end) + GAP + text.slice(-end);
}

export const count = (n) => (Number.isFinite(n) ? counts.format(n) : "–");
export const percent = (share) => (Number.isFinite(share) ? `${percents.format(100 * share)} %` : "–");
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// A value of a feature.
export function figure(value) {
  if (typeof value !== "number") return printable(value, 60);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(2) : digits.format(value);
}

// The name of a subclass: S11, or partition and number for a service.
export const subclass = (id) => (/^\d+$/.test(id) ? `S${id}` : printable(id, 80));

// The name of a candidate, as in reports and on the command line.
export const nameOf = ({ id, name }) => (name === undefined ? subclass(id) : printable(name, 80));

// "24 σ": the distance from the nearest known class.
export const distance = (sigmas) =>
  `${Number.isFinite(sigmas) ? (sigmas < 10 ? sigmas.toFixed(1) : count(Math.round(sigmas))) : "?"}\u00a0σ`;

// "larger rawred-mean (+12 σ)": a difference in one feature.
export function difference({ feature, here, there, deviations }) {
  const name = printable(feature, 60);
  if (!Number.isFinite(deviations)) return `${name} ${figure(here)} (usually ${figure(there)})`;
  return `${deviations < 0 ? "smaller" : "larger"} ${name} (${deviations < 0 ? "−" : "+"}${distance(Math.abs(deviations))})`;
}

// The time of a change, in the reader's time zone.
export function moment(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return printable(text, 40);
  const today = at.toDateString() === new Date().toDateString();
  return today ? at.toLocaleTimeString("en-GB") : at.toLocaleString("en-GB");
}
