// The page's one script. The server makes all HTML, escaped; this fetches the parts that a change concerns and puts them in.
// What a person chose is the address: it can be kept and sent. There is nothing here that changes anything but the view.
"use strict";

const root = document.documentElement;
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const EDGE = 14;

const theme = localStorage.getItem("theme");
if (theme) root.dataset.theme = theme;

addEventListener("DOMContentLoaded", () => {
  $("#theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  });
  if ($("#page")) start();
  else if ($(".report")) for (const asks of $$("[data-set], [data-zoom]")) asks.replaceWith(...(asks.dataset.set === "at" ? asks.childNodes : []));
  else setInterval(renew, 5000);
});

// The list of jobs, and a job without a checkpoint: what is new is put in, and the page of a job comes by itself.
let renewed = "";
async function renew() {
  if (document.visibilityState !== "visible") return;
  try {
    const answer = await fetch(location.href, { credentials: "same-origin" }), text = await answer.text();
    const main = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    if (answer.redirected || !main || $("#page", main)) location.reload();
    else if (text !== renewed && !selects($("main"))) { replace($("main"), main.childNodes); renewed = text; }
  } catch { renewed = ""; say($("main"), SILENT, true); }
}

const SILENT = "The page's server does not answer: what is here is from before.";

const selects = (part) => { const chosen = getSelection(); return !chosen.isCollapsed && chosen.containsNode(part, true); };

// An error above what a part shows; it is asked for again when nothing answered.
function say(part, said, unanswered = false) {
  const had = $(":scope > .told", part);
  if (had?.textContent === said) return;
  had?.remove();
  const message = document.createElement("p");
  message.className = `error told${unanswered ? " unanswered" : ""}`; message.setAttribute("role", "alert"); message.textContent = said;
  part.prepend(message);
}

// Put new HTML in, and keep what the person has in hand: focus, the cursor, what is scrolled and unfolded.
function replace(part, nodes) {
  const had = document.activeElement;
  const held = part.contains(had) ? { id: had.id, text: had.value, at: had.selectionStart, like: like(had) } : null;
  const scrolled = $$(".scroll, .tabs", part).map((box) => [box.scrollTop, box.scrollLeft]);
  const folds = new Map($$("details[data-fold]", part).map((each) => [each.dataset.fold, each.open]));
  part.replaceChildren(...nodes);
  $$(".scroll, .tabs", part).forEach((box, i) => scrolled[i] && box.scrollTo(scrolled[i][1], scrolled[i][0]));
  for (const each of $$("details[data-fold]", part)) each.open = folds.get(each.dataset.fold) ?? each.open;
  if (!held) return;
  let same = held.id ? document.getElementById(held.id) : $$("a, button, summary, [tabindex]", part).find((each) => like(each) === held.like);
  if (same?.disabled) same = $("button:enabled", same.parentElement); // of the first and the last page
  if (!same) return;
  if (held.id && held.text !== undefined) same.value = held.text;
  same.focus({ preventScroll: true });
  if (held.at != null && same.setSelectionRange) same.setSelectionRange(held.at, held.at);
}
// What tells one thing that takes the focus from the others of its part.
const like = (each) => JSON.stringify([each.localName, each.href, each.getAttribute("aria-label"), { ...each.dataset, shown: "" }, each.closest("[data-fold]")?.dataset.fold]);

// What a report has as well: it is the page as one file, without a server.
function tip(event) {
  const said = event.target.closest?.("[data-tip]")?.dataset.tip, box = $("#tip");
  box.hidden = !said;
  if (!said) return;
  box.textContent = said;
  const place = box.getBoundingClientRect();
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - place.width - 8)}px`;
  box.style.top = `${event.clientY + 18 + place.height > innerHeight ? event.clientY - place.height - 10 : event.clientY + 18}px`;
}
addEventListener("pointermove", tip);
addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const code = $("code", button.parentElement);
  try { await navigator.clipboard.writeText(code.textContent); button.textContent = "Copied"; } catch { getSelection().selectAllChildren(code); button.textContent = "Selected"; }
  setTimeout(() => (button.textContent = "Copy"), 1500);
});

function start() {
  const about = $("#page").dataset;
  const asked = new URLSearchParams(location.search);
  const view = {};
  for (const name of ["at", "against", "operator", "state", "search", "key"]) view[name] = about[name] || "";
  for (const name of ["from", "to", "page"]) view[name] = asked.get(name) || "";
  let follows = !asked.get("at");
  const parts = $$("[data-part]");
  const running = new Map();
  const waiting = new Set();
  const shown = new Map(); // of a part, the HTML that it shows
  const now = $('[data-part="now"]');
  let pressed = false;
  for (const [what, is] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) addEventListener(what, () => (pressed = is), true);

  // What a part shows depends on these.
  const needs = (part) => part.dataset.needs.split(" ").filter(Boolean);
  const width = () => String(Math.round(Math.max(320, $("#line > div").clientWidth)));

  function remember() {
    const kept = new URLSearchParams();
    for (const [name, value] of Object.entries(view)) if (value && !(name === "at" && follows)) kept.set(name, value);
    history.replaceState(null, "", `${about.base}?${kept}`.replace(/\?$/, ""));
  }

  // A step of the slider waits for the one before, and only the newest waits: the server never works for a step that is past.
  // Of what nobody asked for nothing is dimmed.
  async function load(part, steps = false, asked = true) {
    if (steps && running.has(part)) { waiting.add(part); return; }
    waiting.delete(part);
    running.get(part)?.abort();
    const stop = new AbortController();
    running.set(part, stop);
    const query = new URLSearchParams();
    for (const name of [...needs(part), ...(part.dataset.also || "").split(" ").filter(Boolean)]) {
      const value = name === "width" ? width() : view[name];
      if (value) query.set(name, value);
    }
    if (asked) part.classList.add("busy-part");
    let text = "";
    try {
      const answer = await fetch(`${about.base}/${part.dataset.part}?${query}`, { signal: stop.signal, credentials: "same-origin" });
      text = await answer.text();
      if (!answer.ok) throw new Error(text);
      place(part, text);
    } catch (error) {
      if (error.name === "AbortError") return;
      shown.delete(part);
      if (error instanceof TypeError) say(part, SILENT, true);
      else say(part, error.message);
      if (part === now) head();
    }
    if (running.get(part) !== stop) return;
    running.delete(part);
    part.classList.remove("busy-part");
    if (waiting.has(part)) load(part);
    return text;
  }

  // How the job is stands at the top, too: who opens the page because it stopped sees it at once.
  function head() {
    const how = $("#how"), why = $("#why"), state = $(":scope > .told", now) ? null : $(".head .pill", now), error = $(":scope > .error", now);
    how.className = state ? state.className : "pill"; how.textContent = state ? state.textContent : "not known"; how.hidden = false;
    why.textContent = error ? error.textContent : ""; why.hidden = !error; // of a job that stopped by itself: what a reader came for
  }

  function place(part, text) {
    if (shown.get(part) === text || (part === now && (pressed || selects(now)))) return;
    const nodes = new DOMParser().parseFromString(text, "text/html").body.childNodes;
    if (part.dataset.part === "timeline" && ![...nodes].some((each) => each.id === "timeline")) { // the slider needs the one before
      shown.delete(part);
      say(part, [...nodes].map((each) => each.textContent).join("").trim());
      return;
    }
    shown.set(part, text);
    if (part.dataset.part === "key") explaining?.abort();
    const before = new Map($$("tr[data-row]", part).map((row) => [row.dataset.row, $(".value", row).textContent]));
    const first = !$(".scroll, .tabs", part);
    replace(part, nodes);
    if (part === now) head();
    const chosen = first ? $(".tabs [aria-selected=true]", part) : null;
    if (chosen) chosen.closest(".tabs").scrollTop = chosen.offsetTop - 60;
    for (const row of $$("tr[data-row]", part)) {
      const was = before.get(row.dataset.row);
      if (was !== undefined && was !== $(".value", row).textContent) row.classList.add("moved");
    }
    if (part.dataset.part === "timeline") fit();
  }

  // "Which record?" runs the job's program on the server; closing the connection ends it there.
  let explaining = null;
  async function explain(button) {
    const row = button.closest("tr"), had = row.nextElementSibling;
    explaining?.abort();
    if (had?.matches("tr.explained")) { had.remove(); if (button.dataset.shown) { delete button.dataset.shown; return; } }
    const stop = (explaining = new AbortController());
    const box = document.createElement("tr"), cell = box.insertCell();
    const words = document.createElement("p"), cancel = document.createElement("button");
    box.className = "explained"; cell.colSpan = row.cells.length; cell.setAttribute("aria-live", "polite");
    words.className = "wait"; words.textContent = "Replaying what the job read… ";
    cancel.type = "button"; cancel.textContent = "Cancel"; cancel.addEventListener("click", () => stop.abort());
    words.append(cancel); cell.append(words); row.after(box);
    const { operator, state, key, checkpoint, command } = button.dataset;
    try {
      const answer = await fetch(`${about.base}/explain`, {
        method: "POST", credentials: "same-origin", signal: stop.signal,
        headers: { "X-Changelog-Engine": "explain" }, body: new URLSearchParams({ operator, state, key, checkpoint }),
      });
      const text = await answer.text();
      if (!answer.ok) throw new Error(text);
      cell.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
      button.dataset.shown = "1";
    } catch (error) {
      words.className = error.name === "AbortError" ? "quiet" : "error";
      words.textContent = error.name === "AbortError" ? "Cancelled." : error instanceof TypeError ? "The page's server does not answer." : error.message;
    }
    const line = document.createElement("span"), code = document.createElement("code"), copy = document.createElement("button");
    line.className = "command"; code.append(...command.split(" ").flatMap((word) => { const whole = document.createElement("span"); whole.textContent = word; return [whole, " "]; }).slice(0, -1)); copy.type = "button"; copy.dataset.copy = ""; copy.textContent = "Copy";
    line.append(code, copy); cell.append(line);
    if (explaining === stop) explaining = null;
  }

  function change(more, asked = true) {
    if ("at" in more) follows = more.at === "";
    const changed = Object.keys(more).filter((name) => view[name] !== String(more[name]));
    for (const name of changed) view[name] = String(more[name]);
    remember();
    if (changed.includes("at") || changed.includes("against")) mark();
    const steps = changed.length === 1 && changed[0] === "at";
    for (const part of parts) if (needs(part).some((name) => changed.includes(name))) load(part, steps, asked);
  }

  // Places on the timeline: ranks of checkpoints. Spans say which ids they have.
  const plot = () => $("#timeline");
  const spans = () => plot().dataset.spans.split(",").map((each) => each.split(":").map(Number));
  const bounds = () => [Number(plot().dataset.first), Number(plot().dataset.last)];
  function idAt(rank) {
    const span = spans().findLast(([first]) => first <= rank) || spans()[0];
    return span[1] + Math.min(Math.max(rank - span[0], 0), span[2] - 1);
  }
  function rankOf(id) {
    const span = spans().findLast(([, first]) => first <= id) || spans()[0];
    return span[0] + Math.min(Math.max(id - span[1], 0), span[2] - 1);
  }
  const xOf = (rank) => { const [first, last] = bounds(); return EDGE + (rank - first) * (plot().dataset.width - 2 * EDGE) / Math.max(1, last - first); };
  function rankAt(event) {
    const box = plot().getBoundingClientRect(), [first, last] = bounds();
    const share = ((event.clientX - box.left) * plot().dataset.width / box.width - EDGE) / (plot().dataset.width - 2 * EDGE);
    return Math.min(Math.max(first + share * (last - first), first), last);
  }

  function mark() {
    $("#at").textContent = view.at;
    for (const [id, value] of [["head", view.at], ["head-against", view.against]]) {
      const x = /^\d+$/.test(value) ? xOf(rankOf(Number(value))) : -9;
      $(`#${id}`).setAttribute("x1", x); $(`#${id}`).setAttribute("x2", x);
    }
    const [first, last] = bounds(), slider = $("#slider");
    slider.min = first; slider.max = Math.max(last, first); slider.value = rankOf(Number(view.at));
    slider.setAttribute("aria-valuetext", `checkpoint ${view.at}`);
    $("#pin").setAttribute("aria-pressed", String(view.against !== ""));
    const tip = $$(".hit").findLast((each) => Number(each.dataset.at) <= Number(view.at))?.dataset.tip;
    const exact = $(`.hit[data-at="${CSS.escape(view.at)}"]`)?.dataset.tip;
    $("#at-time").textContent = (exact || tip || "").split("\n").slice(1).join(" · ");
  }
  let fitted = "";
  function fit() {
    mark();
    if (fitted !== width() && plot().dataset.width !== width()) { fitted = width(); load($('[data-part="timeline"]')); }
  }

  const move = (rank) => { const id = idAt(Math.round(Math.min(Math.max(rank, 0), plot().dataset.count - 1))); show(id); change({ at: id }); };
  function show(id) { // the window follows a moment that leaves it
    const [first, last] = bounds(), rank = rankOf(id);
    if (rank < first || rank > last) window_(rank - (last - first) / 2, rank + (last - first) / 2);
  }
  function window_(first, last) {
    const count = Number(plot().dataset.count), least = Math.min(count - 1, 8);
    let wide = Math.max(Math.round(last - first), least);
    let low = Math.round(first);
    if (wide >= count - 1) { change({ from: "", to: "" }); return; }
    low = Math.min(Math.max(low, 0), count - 1 - wide);
    change({ from: idAt(low), to: idAt(low + wide) });
  }
  function zoom(factor, around) {
    const [first, last] = bounds(), wide = (last - first) * factor;
    const share = last > first ? (around - first) / (last - first) : 0.5;
    window_(around - wide * share, around + wide * (1 - share));
  }
  const middle = () => { const [first, last] = bounds(), at = rankOf(Number(view.at)); return at >= first && at <= last ? at : (first + last) / 2; };
  function zoomBy(how) {
    const [first, last] = bounds(), wide = last - first;
    if (how === "in") zoom(0.4, middle());
    if (how === "out") zoom(2.5, middle());
    if (how === "left") window_(first - wide / 2, last - wide / 2);
    if (how === "right") window_(first + wide / 2, last + wide / 2);
    if (how === "all") change({ from: "", to: "" });
  }

  // The pointer on the graph: a click is a moment, a drag a stretch to zoom into.
  let from = null;
  document.addEventListener("pointerdown", (event) => { if (event.target.closest?.("#timeline") && event.button === 0) from = { x: event.clientX, rank: rankAt(event) }; });
  document.addEventListener("pointermove", (event) => {
    if (from && Math.abs(event.clientX - from.x) > 6) {
      const [a, b] = [xOf(from.rank), xOf(rankAt(event))].sort((x, y) => x - y);
      $("#brush").setAttribute("x", a); $("#brush").setAttribute("width", b - a);
    }
  });
  document.addEventListener("pointerup", (event) => {
    if (!from) return;
    const to = rankAt(event), dragged = Math.abs(event.clientX - from.x) > 6;
    const begin = from.rank;
    from = null; $("#brush").setAttribute("width", 0);
    if (dragged) window_(Math.min(begin, to), Math.max(begin, to));
    else if (event.shiftKey) change({ against: idAt(Math.round(to)) });
    else move(to);
  });
  document.addEventListener("pointercancel", () => { from = null; $("#brush")?.setAttribute("width", 0); });
  $("#line").addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey || event.altKey) || !event.target.closest("#timeline")) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.7 : 1.4, rankAt(event));
  }, { passive: false });
  $("#slider").addEventListener("input", (event) => move(Number(event.target.value)));
  const pin = () => change({ against: view.against ? "" : view.at });
  const newest = () => { const count = Number(plot().dataset.count); move(count - 1); follows = true; remember(); };
  $("#newest").addEventListener("click", newest);
  $("#pin").addEventListener("click", pin);

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button, [data-at].mark, [data-at].pennant");
    if (!button) return;
    const on = button.dataset;
    if ("explain" in on) { explain(button); return; }
    if (on.step) move(rankOf(Number(view.at)) + Number(on.step));
    if (on.zoom) zoomBy(on.zoom);
    if (on.set === "at" || (on.at && !on.set)) { const id = Number(on.at || on.value); show(id); change({ at: id }); }
    else if (on.set) {
      const more = { [on.set]: on.value };
      if (on.set2) more[on.set2] = on.value2;
      for (const name of (on.clear || "").split(" ").filter(Boolean)) more[name] = "";
      change(more);
      if (on.go) $(`#${on.go}`).scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    }
  });
  let typing;
  document.addEventListener("input", (event) => {
    const name = event.target.dataset?.input;
    if (!name) return;
    clearTimeout(typing);
    typing = setTimeout(() => change({ [name]: event.target.value, page: "" }), 120);
  });
  document.addEventListener("change", (event) => { const name = event.target.dataset?.change; if (name) change({ [name]: event.target.value.trim() }); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches?.("input:not([type=range]), textarea, select")) { if (event.key === "Escape") event.target.blur(); return; }
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 };
    if (event.key in steps && (event.target === document.body || event.target.id === "slider")) { move(rankOf(Number(view.at)) + steps[event.key]); event.preventDefault(); }
    else if (event.key === "End" && event.target === document.body) newest();
    else if (event.key === "+") zoomBy("in");
    else if (event.key === "-") zoomBy("out");
    else if (event.key === "0") zoomBy("all");
    else if (event.key === "c") pin();
    else if (event.key === "/") { $("#search")?.focus(); event.preventDefault(); }
  });

  // What goes on: "Now" by itself; the timeline, and the moment when it follows, with each new checkpoint.
  let known = Number(plot().dataset.count);
  setInterval(async () => {
    if (document.visibilityState !== "visible" || running.has(now)) return;
    const count = Number(/data-checkpoints="(\d+)"/.exec(await load(now, false, false))?.[1] || known);
    if (!$(":scope > .unanswered", now)) for (const part of parts) if ($(":scope > .unanswered", part)) load(part);
    if (count === known || from) return;
    known = count;
    const [first, last] = bounds(), inside = rankOf(Number(view.at)) >= first && rankOf(Number(view.at)) <= last;
    await load($('[data-part="timeline"]'), false, false);
    if (follows) { const at = idAt(Number(plot().dataset.count) - 1); if (inside) show(at); change({ at }, false); follows = true; remember(); }
  }, Number(now.dataset.every));
  let resized;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(fit, 200); });

  fit();
  for (const part of parts) if (!["timeline", "commands"].includes(part.dataset.part)) load(part);
}
