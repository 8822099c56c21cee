// Growth of a candidate in a few pixels.

import { draw } from "./dom.js";

const WIDE = 160,
  HIGH = 36;

export function spark(growth) {
  const most = Math.max(1, ...growth),
    step = WIDE / Math.max(1, growth.length);
  const bars = growth.map((n, at) => {
    const high = n === 0 ? 0 : Math.max(1.5, (n / most) * HIGH);
    return `M${(at * step).toFixed(2)} ${HIGH}v${(-high).toFixed(2)}h${(step * 0.82).toFixed(2)}v${high.toFixed(2)}z`;
  });
  return draw(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("path", { class: "ground", d: `M0 ${HIGH - 0.5}h${WIDE}` }),
    draw("path", { class: "bars", d: bars.join("") }),
  );
}
