// The page shows what informd knows and changes nothing. All text from objects is
// hostile: it enters the document as text only (textContent), never as HTML.
import { changes, printed } from "./diff.js";

const MAX_EVENTS = 300;
const PER_SECOND = 50;
const $ = (id) => document.getElementById(id);

// el makes an element with a class and children: strings become text.
function el(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
}

// clean shows control characters as escapes, so that text cannot hide or reorder other text.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const clean = (text) => String(text ?? "").replace(hidden, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

const number = (n) => Number(n ?? 0).toLocaleString("en", { maximumFractionDigits: 1 });

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (n = Number(n ?? 0); n >= 1024 && i < units.length - 1; n /= 1024) i++;
  return `${n.toFixed(i && n < 10 ? 1 : 0)} ${units[i]}`;
}

function span(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

const since = (time) => (time ? `${span((Date.now() - Date.parse(time)) / 1000)} ago` : "never");

const shownTime = {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
};

function clock(time) {
  const e = el("time", "", new Date(time).toLocaleString("sv-SE", shownTime)); // as in 2026-11-02 04:03:59 GMT+1
  e.dateTime = clean(time);
  e.title = clean(time);
  return e;
}

// ---- requests -------------------------------------------------------------

const token = () => sessionStorage.getItem("token");

// ask sends a request, with the token if there is one. An answer other than 200 is an
// error with informd's own text.
async function ask(path, signal) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  const answer = await fetch(path, { headers, signal, cache: "no-store" });
  if (!answer.ok) {
    $("access").hidden = !(answer.status === 401 || answer.status === 403);
    throw new Error((await answer.text()).trim() || `${answer.status} ${answer.statusText}`);
  }
  return answer;
}

// stream calls take with each server-sent event until the server ends it.
async function stream(path, signal, take) {
  const reader = (await ask(path, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const message = { event: "message", data: "" };
      for (const line of part.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) message[line.slice(0, at)] = line.slice(at + 2);
      }
      if (message.data) take(message.event, JSON.parse(message.data));
    }
  }
}

function say(id, text, bad) {
  $(id).textContent = clean(text);
  $(id).classList.toggle("bad", !!bad);
}

// ---- overview -------------------------------------------------------------

let status = null;

function mood(state) {
  if (["live", "running"].includes(state)) return "good";
  if (["forbidden", "failed", "retrying", "stopped", "unavailable"].includes(state)) return "bad";
  return "warn";
}

const badge = (state) => el("span", `badge ${mood(state)}`, clean(state));

function tile(title, value, note, bad) {
  return el("div", "tile", el("b", "", value), el("span", "", title), note ? el("small", bad ? "bad" : "", note) : "");
}

const cell = (text, className) => el("td", className, clean(text));

function tiles(s) {
  const states = Object.entries(s.targetStates ?? {}).map(([state, n]) => `${n} ${state}`).join(", ");
  const letters = Object.values(s.deadLetters ?? {}).reduce((a, b) => a + b, 0);
  const lag = Math.max(0, ...s.sinks.map((k) => k.lagSeconds));
  const j = s.journal;
  const journal = tile(`journal (${clean(j.type)})`, bytes(j.bytes), j.problem ? clean(j.problem) : `of ${bytes(j.capacityBytes)}, ${number(j.events)} events`, j.problem);
  if (j.capacityBytes > 0) {
    const used = document.createElement("meter");
    Object.assign(used, { min: 0, max: j.capacityBytes, high: j.capacityBytes * 0.9, value: j.bytes, ariaLabel: "journal used" });
    journal.append(used);
  }
  $("tiles").replaceChildren(
    tile("targets", number(s.targets.length), states),
    tile("objects", number(s.targets.reduce((n, t) => n + t.objects, 0))),
    tile("events per second", number(s.targets.reduce((n, t) => n + t.eventsPerSecond, 0))),
    tile("largest lag of a sink", span(lag), lag > 60 ? "behind" : "", true),
    journal,
    tile("dead letters", number(letters), letters ? "see Gaps and dead letters" : "", true),
  );
}

function sinks(s) {
  $("sinks").replaceChildren(...s.sinks.map((k) => el("tr", "",
    cell(k.name, "name"), cell(k.type), el("td", "", badge(k.state)), cell(number(k.lagEvents), "n"), cell(number(k.lagSeconds), "n"),
    cell(number(k.delivered), "n"), cell(number(k.filtered), "n"), cell(number(k.refused), "n"), cell(number(k.retries), "n"),
    cell(k.lastError ? `${since(k.lastErrorAt)}: ${k.lastError}` : "", "text"))));
}

function targets(s) {
  const want = $("target-filter").value.toLowerCase();
  const shown = s.targets.filter((t) => `${t.target} ${t.state} ${t.reason ?? ""}`.toLowerCase().includes(want));
  shown.sort((a, b) => (mood(a.state) === "good") - (mood(b.state) === "good") || a.target.localeCompare(b.target));
  say("target-count", shown.length === s.targets.length ? `${shown.length} targets` : `${shown.length} of ${s.targets.length} targets`);
  $("targets").replaceChildren(...shown.slice(0, 1000).map((t) => el("tr", "",
    cell(t.target, "name"), el("td", "", badge(t.state)), cell(number(t.objects), "n"), cell(number(t.eventsPerSecond), "n"), cell(number(t.events), "n"),
    cell(t.resourceVersion, "n"), cell(since(t.lastProgress)), cell([t.blocked ? "waits for the journal" : "", t.reason].filter(Boolean).join("; "), "text"))));
}

function overview(s) {
  status = s;
  say("cluster", s.cluster);
  say("about", `${s.version}, up for ${span(s.uptimeSeconds)}${s.follower ? `, follows ${s.follower.leader || "nobody yet"}${s.follower.inSync ? ", in sync" : ""}` : ""}`);
  const failed = s.config && !s.config.lastReloadSuccessful;
  $("notice").hidden = !failed;
  if (failed) say("notice", `The config was not reloaded: ${s.config.lastReloadError}`);
  $("resources").replaceChildren(...[...new Set(s.targets.map((t) => resourceOf(t)))].map((name) => Object.assign(document.createElement("option"), { value: name })));
  tiles(s);
  sinks(s);
  targets(s);
}

const resourceOf = (t) => t.target.split("/").pop().split(" ")[0] + (t.group ? `.${t.group}` : "");

async function follow() {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 15000)) {
    try {
      await stream("page/status", undefined, (_, s) => {
        wait = 1000;
        $("live").className = "badge good";
        say("live", "live");
        overview(s);
      });
    } catch (err) {
      if (!status) {
        $("notice").hidden = false;
        say("notice", err.message);
      }
    }
    $("live").className = "badge bad";
    say("live", "not connected");
    await new Promise((done) => setTimeout(done, wait));
  }
}

// ---- events ---------------------------------------------------------------

const objectOf = (e) => [e.group ? `${e.resource}.${e.group}` : e.resource, e.namespace, e.name].filter(Boolean).join("/");

function diffList(list) {
  return el("ul", "changes", ...list.map((c) => el("li", "mono", `${clean(c.path)} `,
    c.from === undefined ? "" : el("del", "", clean(c.from)), " ", c.to === undefined ? "" : el("ins", "", clean(c.to)))));
}

// entry is one event: what it is, and on demand all of it. before is the object of the event before.
function entry(e, before, link) {
  const details = el("details", "");
  const summary = el("summary", "", clock(e.time), el("span", `op op-${/^[a-z]+$/.test(e.op) ? e.op : "state"}`, clean(e.op)), " ",
    el("span", "where mono", clean(e.name ? objectOf(e) : e.subject)), el("span", "quiet", clean(note(e))));
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    if (before) details.append(diffList(changes(before, e.data?.object)));
    details.append(el("pre", "", clean(printed(e))));
    if (link && e.name) {
      const a = el("a", "", "History of this object");
      a.href = `#history=${encodeURIComponent(objectOf(e))}`;
      details.append(a);
    }
  });
  return el("li", `op-${/^[a-z]+$/.test(e.op) ? e.op : "state"}`, details);
}

function note(e) {
  if (e.op === "gap") return `revisions ${e.fromrv} to ${e.torv}: ${e.reason}${e.recovered ? `, ${e.recovered} recovered` : ""}`;
  return [e.resourceversion && `revision ${e.resourceversion}`, e.data?.fieldManager?.manager ?? "", e.replay ? "found later" : ""].filter(Boolean).join(", ");
}

let tailing = null;

async function tail(form) {
  if (tailing) return tailing.abort();
  tailing = new AbortController();
  $("tail-button").textContent = "Stop";
  const query = new URLSearchParams([...new FormData(form)].map(([k, v]) => [k, v.trim()]).filter(([, v]) => v));
  query.set("perSecond", PER_SECOND);
  let seen = 0, skipped = 0, failed = 0;
  say("tail-state", "Waiting for events.");
  const waiting = [];
  let drawing = 0;
  const draw = () => {
    const list = $("events");
    for (const e of waiting.splice(0)) list.prepend(entry(e, e.data?.oldObject, true));
    while (list.childElementCount > MAX_EVENTS) list.lastElementChild.remove();
    const more = [skipped && `${number(skipped)} more not shown: at most ${PER_SECOND} a second`, failed && `the condition failed for ${number(failed)}`];
    say("tail-state", [`${number(seen)} events`, ...more.filter(Boolean)].join("; ") + ".");
  };
  const later = () => drawing || (drawing = requestAnimationFrame(() => { drawing = 0; draw(); }));
  try {
    await stream(`tail?${query}`, tailing.signal, (kind, e) => {
      if (kind === "end") throw new Error(`informd ended the tail: ${e.reason}`);
      if (kind === "skipped") skipped = e.events;
      else if (kind === "failed") failed = e.events;
      else {
        seen++;
        waiting.push(e);
        if (waiting.length > MAX_EVENTS) waiting.shift();
      }
      later();
    });
    say("tail-state", "informd ended the tail.", true);
  } catch (err) {
    say("tail-state", err.name === "AbortError" ? `Stopped after ${number(seen)} events.` : err.message, err.name !== "AbortError");
  }
  tailing = null;
  $("tail-button").textContent = "Start";
}

async function history(object) {
  $("history-form").elements.object.value = object;
  $("line").replaceChildren();
  say("history-state", "Reading the journal.");
  try {
    const found = await (await ask(`history?object=${encodeURIComponent(object)}`)).json();
    let before;
    const entries = found.events.map((e) => {
      const item = entry(e, undefined, false);
      if (before && e.data?.object) {
        const list = changes(before, e.data.object).filter((c) => c.path !== "metadata.resourceVersion");
        item.append(diffList(list.slice(0, 12)), list.length > 12 ? el("span", "quiet", `and ${list.length - 12} more`) : "");
      }
      before = e.data?.object ?? before;
      return item;
    });
    $("line").replaceChildren(...entries.reverse());
    say("history-state", entries.length === 0 ? "The journal has no event of this object." :
      entries.length < found.historyPerObject ? `${entries.length} events.` : `The last ${entries.length} events: the journal keeps no more of an object (historyPerObject).`);
  } catch (err) {
    say("history-state", err.message, true);
  }
}

// ---- gaps and dead letters --------------------------------------------------

// letter is a dead letter of a sink, or one of the source, which has a target and a key.
function letter({ sink, number, letter: l }) {
  const e = l.event;
  const item = el("li", "", clock(l.time), " ", el("b", "", clean(`${sink}/${number}`)), " ",
    el("span", "mono", clean(e ? objectOf(e) : [l.target, l.key].filter(Boolean).join(" "))), " ", el("span", "bad", clean(l.reason)));
  if (e?.name) {
    const a = el("a", "", "History");
    a.href = `#history=${encodeURIComponent(objectOf(e))}`;
    item.append(" ", a);
  }
  return item;
}

async function problems() {
  say("problems-state", "Looking.");
  const none = (list, text) => (list.length ? list : [el("li", "quiet", text)]);
  $("unhealthy").replaceChildren(...none((status?.targets ?? []).filter((t) => t.state !== "live").map((t) => el("li", "", el("span", "mono", clean(t.target)), " ", badge(t.state), " ", clean(t.reason))), "All targets are live."));
  try {
    const gaps = (await (await ask("gaps")).json()).events ?? [];
    $("gaps").replaceChildren(...none(gaps.reverse().map((e) => entry(e)), "The journal holds no gap."));
    const lines = (await (await ask("deadletters")).text()).split("\n").filter(Boolean).map((l) => JSON.parse(l));
    $("letters").replaceChildren(...none(lines.slice(0, 500).map(letter), "There is no dead letter."));
    say("problems-state", "");
  } catch (err) {
    say("problems-state", err.message, true);
  }
}

// ---- views ------------------------------------------------------------------

function route() {
  let [, view, value] = /^#([^=]*)=?(.*)/.exec(location.hash) ?? []; // base64 can end in "="
  if (view === "token" && value) { // a link with the token: it must not stay in the address
    sessionStorage.setItem("token", decodeURIComponent(value));
    window.history.replaceState(null, "", "#overview");
    view = "overview";
  }
  const name = ["overview", "tail", "history", "problems"].includes(view) ? view : "overview";
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== name;
  for (const a of document.querySelectorAll("nav a")) {
    if (a.hash === `#${name}`) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  if (name === "history" && value) history(decodeURIComponent(value));
  if (name === "problems") problems();
}

$("target-filter").addEventListener("input", () => status && targets(status));
$("tail-form").addEventListener("submit", (e) => { e.preventDefault(); tail(e.target); });
$("tail-clear").addEventListener("click", () => $("events").replaceChildren());
$("history-form").addEventListener("submit", (e) => {
  e.preventDefault();
  location.hash = `history=${encodeURIComponent(e.target.elements.object.value.trim())}`;
});
$("problems-button").addEventListener("click", problems);
$("access").addEventListener("submit", (e) => {
  e.preventDefault();
  sessionStorage.setItem("token", $("token").value.trim());
  $("token").value = "";
  $("access").hidden = true;
  route();
});
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault(); // the fragment is the view
  $("main").focus();
});
addEventListener("hashchange", route);
route();
follow();
