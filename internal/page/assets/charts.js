// Charts of the last hour, from the samples that informd keeps.
import { clean, el, keyed, minute, number, span, write } from "./dom.js";

const WIDTH = 300, HEIGHT = 60; // of the drawing, which is stretched to its place
const HOLE = 60; // seconds without a sample that a line does not cross

// top is the end of the scale: 1, 2 or 5 with zeros.
function top(most) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  return [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= most);
}

// paths are the line through the samples, and the area below it, as SVG has them.
function paths(times, values, most) {
  const from = times[0], length = Math.max(times.at(-1) - from, 1);
  const x = (i) => ((times[i] - from) / length * WIDTH).toFixed(1);
  const y = (i) => (HEIGHT - values[i] / most * HEIGHT).toFixed(1);
  let line = "", area = "";
  values.forEach((_, i) => {
    if (Number.isNaN(values[i])) return;
    const begins = i === 0 || Number.isNaN(values[i - 1]) || times[i] - times[i - 1] > HOLE;
    const ends = i === values.length - 1 || times[i + 1] - times[i] > HOLE;
    line += `${begins ? "M" : "L"}${x(i)} ${y(i)}`;
    area += `${begins ? `M${x(i)} ${HEIGHT}` : ""}L${x(i)} ${y(i)}${ends ? `L${x(i)} ${HEIGHT}Z` : ""}`;
  });
  return { line, area };
}

function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

function figure() {
  const grid = svg("path", { class: "grid", d: `M0 0H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT}H${WIDTH}` });
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    grid, svg("path", { class: "area" }), svg("path", { class: "curve" }));
  const scale = el("div", "scale", el("span"), el("span", "", "0"));
  return el("figure", "chart", el("figcaption", "", el("b"), " ", el("span", "quiet")), scale, drawing, el("div", "axis", el("span"), el("span")));
}

// draw updates a figure; its caption has in words what the drawing shows.
function draw(e, { title, times, values, unit, state }) {
  e.classList.toggle("bad", state === "bad");
  const known = values.filter((v) => !Number.isNaN(v));
  const most = Math.max(...known), at = times[values.lastIndexOf(most)];
  write(e.querySelector("b"), title);
  write(e.querySelector("figcaption span"), `now ${unit(known.at(-1))}, at most ${unit(most)}${most > 0 ? ` at ${minute(at)}` : ""}`);
  const scale = top(most), [high] = e.querySelector(".scale").children, [from, to] = e.querySelector(".axis").children;
  write(high, unit(scale));
  write(from, minute(times[0]));
  write(to, minute(times.at(-1)));
  const { line, area } = paths(times, values, scale);
  e.querySelector(".curve").setAttribute("d", line);
  e.querySelector(".area").setAttribute("d", area);
}

// charts draws the events per second and the lag of each sink; sinks are in the order of the page,
// and mood says how each one is. The first few are in first, the others in more.
export function charts(first, more, { times, eventsPerSecond, sinks }, order, mood, few) {
  const all = [{ title: "Events per second", times, values: eventsPerSecond, unit: number }];
  const lags = new Map(sinks.map((k) => [k.name, k.lagSeconds]));
  for (const k of order) {
    const had = lags.get(k.name);
    if (!had) continue;
    const missing = Array(times.length - had.length).fill(NaN);
    all.push({ title: `Lag of ${clean(k.name)}`, times, values: [...missing, ...had], unit: span, state: mood(k.state) });
  }
  keyed(first, all.slice(0, few), (c) => c.title, figure, draw);
  keyed(more, all.slice(few), (c) => c.title, figure, draw);
  return all.length;
}
