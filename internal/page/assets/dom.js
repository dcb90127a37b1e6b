// Elements of the page. All text from objects is hostile: it enters the document as text only
// (textContent), never as HTML.

export const $ = (id) => document.getElementById(id);

// el makes an element with a class and children: strings become text.
export function el(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
}

// clean shows control characters as escapes, so that text cannot hide or reorder other text.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
export const clean = (text) => String(text ?? "").replace(hidden, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

// write sets the text and class of an element, and touches nothing that is so already: a selection
// stays, and a screen reader does not read it again.
export function write(e, text, className = e.className) {
  text = clean(text);
  if (e.textContent !== text) e.textContent = text;
  if (e.className !== className) e.className = className;
}

// keyed makes the children of list those of items, in their order. An item with the key of a child
// keeps that child, so what is selected, focused or open in it stays.
export function keyed(list, items, key, make, update) {
  const had = new Map([...list.children].map((e) => [e.dataset.key, e]));
  const children = items.map((item) => {
    const name = String(key(item));
    const e = had.get(name) ?? make(item);
    had.delete(name);
    e.dataset.key = name;
    update?.(e, item);
    return e;
  });
  for (const e of had.values()) e.remove();
  let at = list.firstElementChild;
  for (const e of children) {
    if (at && e !== at && at.nextElementSibling === e) { // at moves down: it is placed again later
      list.append(at);
      at = e;
    }
    if (e === at) at = at.nextElementSibling;
    else list.insertBefore(e, at);
  }
  while (list.childElementCount > children.length) list.lastElementChild.remove(); // two had the same key
}

// cells fills a row of a table: [text, class of the cell, class of the text].
export function cells(row, ...all) {
  all.forEach(([text, className = "", inner], i) => {
    const td = row.children[i] ?? row.appendChild(el("td", className));
    if (inner) write(td.firstElementChild ?? td.appendChild(el("span")), text, inner);
    else write(td, text);
  });
}

// outside is a link to a page of another site, once its address is known.
export function outside(text, address) {
  const a = el("a", "", clean(text));
  if (/^https:/.test(address)) Object.assign(a, { href: address, target: "_blank", rel: "noreferrer" });
  return a;
}

export const number = (n) => Number(n ?? 0).toLocaleString("en", { maximumFractionDigits: 1 });

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (n = Number(n ?? 0); n >= 1024 && i < units.length - 1; n /= 1024) i++;
  return `${n.toFixed(i && n < 10 ? 1 : 0)} ${units[i]}`;
}

export function span(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export const since = (time) => (time ? `${span((Date.now() - Date.parse(time)) / 1000)} ago` : "never");

const shownTime = {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
};

export function clock(time) {
  const e = el("time", "", new Date(time).toLocaleString("sv-SE", shownTime)); // as in 2026-11-02 04:03:59 GMT+1
  e.dateTime = clean(time);
  e.title = clean(time);
  return e;
}

// minute is a time of day with its zone.
export const minute = (seconds) => new Date(seconds * 1000).toLocaleTimeString("sv-SE", { hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
