// What is new: rows that were not there when the reader last looked at this view are marked, and screen readers hear what changed.
"use strict";

const seenViews = 30; // views whose rows are remembered in this browser
const markMillis = 60000; // a mark stays at least this long, and until the reader was active
const wallMillis = 600000; // a mark on a wall screen, where no reader is active, stays this long
const view = location.pathname + location.search;
const rowSelector = ".changes > li:not(.run), tbody > tr:has(th a)";
const rowKey = (row) => row.querySelector("th a, .rev")?.getAttribute("href");
const rowKeys = () => [...document.querySelectorAll(rowSelector)].map(rowKey).filter(Boolean);

function loadSeen() {
  try {
    return JSON.parse(localStorage.getItem("seen")) ?? {};
  } catch {
    return {};
  }
}

let wasActive = false; // the reader was active since the last row came
let rowsSaved = false; // the shown rows are saved
let seenKeys = new Set(loadSeen()[view] ?? rowKeys());
const firstShown = new Map(); // when a row that was not seen was first shown

function markRows() {
  const now = Date.now(), wall = document.documentElement.classList.contains("wall");
  for (const row of document.querySelectorAll(rowSelector)) {
    const key = rowKey(row);
    if (!key || seenKeys.has(key)) continue;
    if (!firstShown.has(key)) firstShown.set(key, now);
    const age = now - firstShown.get(key);
    if (age > markMillis && wasActive || wall && age > wallMillis) {
      seenKeys.add(key);
    } else {
      const mark = document.createElement("span");
      mark.className = "new";
      mark.textContent = "new";
      row.querySelector("th, .who").append(" ", mark);
    }
  }
}

// saveSeen keeps the shown rows as seen for the next visit of this view.
function saveSeen() {
  if (rowsSaved) return;
  wasActive = rowsSaved = true;
  const keys = rowKeys(), all = loadSeen();
  if (!keys.length || JSON.stringify(all[view]) === JSON.stringify(keys)) return;
  delete all[view]; // the last one is the newest
  all[view] = keys;
  for (const old of Object.keys(all).slice(0, -seenViews)) delete all[old];
  try {
    localStorage.setItem("seen", JSON.stringify(all));
  } catch {} // the browser keeps nothing
}
for (const activity of ["pointermove", "pointerdown", "keydown", "wheel"]) document.addEventListener(activity, saveSeen, { passive: true });

// summary returns what a screen reader should hear changes of: the number of clusters in states, and the states of a cluster.
function summary() {
  const counts = {};
  document.querySelectorAll("[data-count]").forEach((e) => { counts[e.dataset.state] = Number(e.dataset.count); });
  return { counts, states: [...document.querySelectorAll("h1 .state")].map((e) => e.textContent).join(" and ") };
}

const changeTexts = {
  failed: ["started to fail", "stopped failing"],
  silent: ["became silent", "polled again"],
};
let before = summary(), newRevisions = [];
document.addEventListener("revision", (e) => newRevisions.push(e.detail));

// announceChanges speaks one sentence if anything changed.
function announceChanges() {
  const now = summary(), parts = [];
  for (const [state, [more, fewer]] of Object.entries(changeTexts)) {
    const change = (now.counts[state] ?? NaN) - (before.counts[state] ?? NaN), n = Math.abs(change);
    if (n > 0) parts.push(`${n} ${n === 1 ? "cluster" : "clusters"} ${change > 0 ? more : fewer}`);
  }
  if (now.states !== before.states && now.states) parts.push("the cluster is now " + now.states);
  const last = newRevisions.at(-1);
  if (newRevisions.length > 1) parts.push(`${newRevisions.length} revisions, the last is ${last.revision}`);
  else if (last) parts.push(`revision ${last.revision}`);
  if (last && (last.author || last.actor)) parts.push(parts.pop() + " by " + (last.author || last.actor));
  before = now;
  newRevisions = [];
  if (!parts.length) return;
  const sentence = parts.join("; ") + ".";
  announce(sentence[0].toUpperCase() + sentence.slice(1));
}

document.addEventListener("refreshed", () => {
  rowsSaved = false;
  if (!rowKeys().every((key) => seenKeys.has(key) || firstShown.has(key))) wasActive = false;
  markRows();
  announceChanges();
});
markRows();
