// The page shows what informd knows and changes nothing.
import { charts } from "./charts.js";
import { changes, printed } from "./diff.js";
import { $, bytes, cells, clean, clock, el, keyed, number, outside, since, span, write } from "./dom.js";

const MAX_EVENTS = 300;
const PER_SECOND = 50;
const MAX_TARGETS = 1000;
const MAX_LETTERS = 500;
const FEW_CHARTS = 4; // that are always open
const SAMPLES_EVERY = 15000;

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
  write($(id), text);
  $(id).classList.toggle("bad", !!bad);
}

// ---- overview -------------------------------------------------------------

let status = null;
let begin;
const begun = new Promise((done) => (begin = done)); // with the first status

function mood(state) {
  if (["live", "running"].includes(state)) return "good";
  if (["forbidden", "degraded", "retrying", "stopped"].includes(state)) return "bad";
  return "warn";
}

// worst sorts what needs attention before the rest, and else by name or as informd has it.
const severity = { bad: 0, warn: 1, good: 2 };
const worst = (a, b) => severity[mood(a.state)] - severity[mood(b.state)];

function tile({ title, used }) {
  const e = el("div", "tile", el("b"), el("span", "", title), el("small"));
  if (used) e.append(Object.assign(document.createElement("meter"), { min: 0, ariaLabel: "journal used" }));
  return e;
}

function fillTile(e, { value, note = "", bad, used }) {
  const [big, , small, meter] = e.children;
  write(big, value);
  write(small, note, bad && note ? "bad" : "");
  if (meter) Object.assign(meter, used);
}

function tiles(s) {
  const states = Object.entries(s.targetStates ?? {}).map(([state, n]) => `${n} ${state}`).join(", ");
  const letters = Object.values(s.deadLetters ?? {}).reduce((a, b) => a + b, 0);
  const lag = Math.max(0, ...s.sinks.map((k) => k.lagSeconds));
  const j = s.journal;
  const sum = (field) => number(s.targets.reduce((n, t) => n + t[field], 0));
  keyed($("tiles"), [
    { title: "targets", value: number(s.targets.length), note: states },
    { title: "objects", value: sum("objects") },
    { title: "events per second", value: sum("eventsPerSecond") },
    { title: "largest lag of a sink", value: span(lag), note: lag > 60 ? "behind" : "", bad: true },
    {
      title: `journal (${clean(j.type)})`, value: bytes(j.bytes), bad: j.problem,
      note: j.problem ? j.problem : `of ${bytes(j.capacityBytes)}, ${number(j.events)} events`,
      used: j.capacityBytes > 0 && { max: j.capacityBytes, high: j.capacityBytes * 0.9, value: j.bytes },
    },
    { title: "dead letters", value: number(letters), note: letters ? "see Gaps and dead letters" : "", bad: true },
  ], (t) => t.title, tile, fillTile);
}

function sinks(s) {
  keyed($("sinks"), [...s.sinks].sort(worst), (k) => k.name, () => el("tr"), (row, k) => cells(row,
    [k.name, "name"], [k.type], [k.state, "", `badge ${mood(k.state)}`], [number(k.lagEvents), "n"], [span(k.lagSeconds), "n"],
    [number(k.delivered), "n"], [number(k.filtered), "n"], [number(k.refused), "n"], [number(k.retries), "n"],
    [k.lastError ? `${since(k.lastErrorAt)}: ${k.lastError}` : "", "text"]));
}

function targets(s) {
  const want = $("target-filter").value.toLowerCase();
  const found = s.targets.filter((t) => `${t.target} ${t.state} ${t.reason ?? ""}`.toLowerCase().includes(want));
  found.sort((a, b) => worst(a, b) || (a.target < b.target ? -1 : 1));
  const count = found.length === s.targets.length ? `${found.length} targets` : `${found.length} of ${s.targets.length} targets`;
  say("target-count", found.length > MAX_TARGETS ? `${count}, the first ${MAX_TARGETS} here` : count);
  keyed($("targets"), found.slice(0, MAX_TARGETS), (t) => t.target, () => el("tr"), (row, t) => cells(row,
    [t.target, "name"], [t.state, "", `badge ${mood(t.state)}`], [number(t.objects), "n"], [number(t.eventsPerSecond), "n"], [number(t.events), "n"],
    [t.resourceVersion, "n"], [since(t.lastProgress)], [[t.blocked ? "waits for the journal" : "", t.reason].filter(Boolean).join("; "), "text"]));
}

let sampledAt = 0;

// lastHour draws the charts when informd may have another sample.
async function lastHour(s) {
  if ($("overview").hidden || Date.now() - sampledAt < SAMPLES_EVERY) return;
  sampledAt = Date.now();
  try {
    const samples = await (await ask("page/samples")).json();
    if (!samples.times?.length) return;
    const more = charts($("charts"), $("more-charts"), samples, [...s.sinks].sort(worst), mood, FEW_CHARTS) - FEW_CHARTS;
    $("more").hidden = more <= 0;
    write($("more-count"), `${more} more sinks`);
  } catch {
    // Soon there is another try; whether informd answers shows above.
  }
}

function overview(s) {
  status = s;
  begin();
  say("cluster", s.cluster);
  say("about", `${s.version}, up for ${span(s.uptimeSeconds)}${s.follower ? `, follows ${s.follower.leader || "nobody yet"}${s.follower.inSync ? ", in sync" : ""}` : ""}`);
  const failed = s.config && !s.config.lastReloadSuccessful;
  $("notice").hidden = !failed;
  if (failed) say("notice", `The config was not reloaded: ${s.config.lastReloadError}`);
  keyed($("resources"), [...new Set(s.targets.map(resourceOf))], (name) => name, (name) => Object.assign(document.createElement("option"), { value: name }));
  tiles(s);
  sinks(s);
  targets(s);
  unhealthy(s);
  lastHour(s);
}

const resourceOf = (t) => t.target.split("/").pop().split(" ")[0] + (t.group ? `.${t.group}` : "");

async function follow() {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 15000)) {
    try {
      await stream("page/status", undefined, (_, s) => {
        wait = 1000;
        write($("live"), "live", "badge good");
        overview(s);
      });
    } catch (err) {
      if (!status) {
        $("notice").hidden = false;
        say("notice", err.message);
      }
    }
    write($("live"), "not connected", "badge bad");
    sampledAt = 0;
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
    const more = [skipped && `${number(skipped)} not shown: at most ${PER_SECOND} a second`, failed && `the condition failed for ${number(failed)}`];
    say("tail-state", [`${number(seen)} events`, ...more.filter(Boolean)].join("; ") + ".");
  };
  const later = () => drawing || (drawing = requestAnimationFrame(() => { drawing = 0; draw(); }));
  try {
    await stream(`tail?${query}`, tailing.signal, (kind, e) => {
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

// unhealthy lists the targets and sinks that need attention, with what to do.
function unhealthy(s) {
  const all = [
    ...s.targets.map((t) => ({ kind: "target", name: t.target, state: t.state, why: t.reason })),
    ...s.sinks.map((k) => ({ kind: "sink", name: k.name, state: k.state, why: k.lastError })),
  ].filter((one) => mood(one.state) !== "good").sort(worst).slice(0, MAX_TARGETS);
  keyed($("unhealthy"), all, (one) => `${one.kind} ${one.name}`,
    (one) => el("li", "", `${one.kind} `, el("span", "mono", clean(one.name)), " ", el("span"), " ", el("span"), " ", outside("What to do", s.runbooks[one.kind])),
    (e, one) => {
      const [, badge, why, link] = e.children;
      write(badge, one.state, `badge ${mood(one.state)}`);
      write(why, one.why ?? "");
      link.hidden = mood(one.state) !== "bad";
    });
  $("healthy").hidden = all.length > 0;
}

// gap is the row of a gap, with the columns of "informd gaps".
function gap(e) {
  const sink = e.subject === "*" ? e.id.split(":")[0] : "-";
  const lost = Number(e.trimmed) > 0 ? `${number(e.trimmed)} events` : sink === "-" ? `(${e.fromrv},${e.torv}]` : "-";
  const details = el("details", "", el("summary", "", "Event"));
  details.addEventListener("toggle", () => details.childElementCount > 1 || details.append(el("pre", "", clean(printed(e)))));
  return el("tr", "", el("td", "", clock(e.time)), el("td", "name", clean(e.subject)), el("td", "", clean(sink)),
    el("td", "", outside(e.reason, status.runbooks.gap + encodeURIComponent(e.reason))), el("td", "", clean(lost)), el("td", "", clean(e.recovered)), el("td", "", details));
}

async function problems() {
  say("problems-state", "Looking.");
  await begun;
  try {
    const gaps = (await (await ask("gaps")).json()).events ?? [];
    keyed($("gaps"), gaps.reverse(), (e) => e.id, gap);
    $("gaps-table").hidden = gaps.length === 0;
    $("no-gaps").hidden = gaps.length > 0;
    const lines = (await (await ask("deadletters")).text()).split("\n").filter(Boolean).map((l) => JSON.parse(l));
    keyed($("letters"), lines.slice(0, MAX_LETTERS), (l) => `${l.sink}/${l.number}`, letter);
    $("no-letters").hidden = lines.length > 0;
    $("letters-runbook").replaceChildren(lines.length > 0 ? outside("What to do", status.runbooks.deadLetters) : "");
    say("problems-state", lines.length > MAX_LETTERS ? `The first ${MAX_LETTERS} of ${number(lines.length)} dead letters are here.` : "");
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
  if (name === "overview" && status) lastHour(status);
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
