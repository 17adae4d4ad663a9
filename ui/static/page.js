// Optional behavior of the page: a visible page shows new data without losing focus, scroll position, selection and open
// details; it shows its age, and has keyboard shortcuts.
"use strict";

const refreshMillis = 15000; // states of clusters change without a revision
const reconnectMillis = 60000; // after the server refused the stream of revisions
let loaded = Date.now();

// The theme is that of the system unless the reader chose another one.
const themes = ["", "light", "dark"];
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    localStorage.setItem("theme", theme);
  } catch {} // the browser keeps nothing
}
try {
  setTheme(themes.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "");
} catch {}
document.documentElement.classList.add("js"); // shows the buttons that need a script

// Buttons that copy the text below them, or a text of their own, and that set the theme.
document.addEventListener("click", async (e) => {
  const button = e.target.closest?.("button");
  if (button?.dataset.theme !== undefined) return setTheme(button.dataset.theme);
  if (!button?.matches(".copy") || !navigator.clipboard) return;
  const text = button.dataset.text === undefined ? button.nextElementSibling.textContent : location.href + "\n" + button.dataset.text;
  await navigator.clipboard.writeText(text);
  const title = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = title; }, 2000);
});
document.addEventListener("click", (e) => {
  document.querySelectorAll(".facet[open]").forEach((facet) => { if (!facet.contains(e.target)) facet.open = false; });
});

const live = () => document.getElementById("live");
const root = document.documentElement.dataset.root; // /ui/, below the service's base path

// announce makes screen readers speak a sentence.
function announce(sentence) {
  document.getElementById("spoken").textContent = sentence;
}

function showAge() {
  const at = document.getElementById("read-at");
  if (!at) return;
  const seconds = Math.round((Date.now() - loaded) / 1000);
  at.textContent = seconds < 5 ? "now" : seconds < 90 ? seconds + " s ago" : Math.round(seconds / 60) + " min ago";
  at.closest(".fresh").classList.toggle("old", seconds > 60);
}
setInterval(showAge, 1000);

// After a failed refresh the old content stays, below a warning.
function showLost() {
  if (document.getElementById("lost")) return;
  const note = document.createElement("p");
  note.id = "lost";
  note.className = "note warn";
  note.setAttribute("role", "alert");
  note.textContent = "The fleet cannot be read at the moment. The data below is from the last successful load.";
  live().before(note);
}

// editing reports whether a form is in use.
function editing() {
  if (document.activeElement.matches("input:not([type=range]), textarea, select")) return true;
  return [...document.querySelectorAll("main form *")].some((field) => field.checked !== field.defaultChecked || (field.type !== "hidden" && field.defaultValue !== undefined && field.value !== field.defaultValue));
}

let refreshing = false;
async function refresh() {
  if (refreshing || !live() || document.hidden || editing()) return;
  refreshing = true;
  try {
    const answer = await fetch(location.pathname + location.search, { headers: { "X-Refresh": "true" } });
    if (answer.status === 401) return location.reload(); // to the sign-in form
    if (!answer.ok) return showLost();
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (editing() || !next.getElementById("live")) return;
    for (const id of ["stop", "live", "freshness"]) {
      const from = document.getElementById(id), to = next.getElementById(id);
      if (from && to) keepFocus(() => morph(from, to));
    }
    document.getElementById("lost")?.remove();
    loaded = Date.now();
    showAge();
    document.dispatchEvent(new Event("refreshed"));
  } catch {
    showLost();
  } finally {
    refreshing = false;
  }
}

// keepFocus focuses the same element again if a change moved it.
function keepFocus(change) {
  const focused = document.activeElement;
  change();
  if (document.activeElement !== focused && focused.isConnected) focused.focus({ preventScroll: true });
}

// morph changes an element into another one, and replaces only what differs.
function morph(from, to) {
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(name === "open" && from.matches("details"))) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !(name === "open" && from.matches("details"))) from.setAttribute(name, value);
  }
  const old = keys(from), wanted = keys(to), byKey = new Map();
  const kept = new Set(wanted.values());
  for (const [node, key] of old) {
    if (kept.has(key)) byKey.set(key, node);
    else node.remove();
  }
  let at = from.firstChild;
  for (const want of [...to.childNodes]) {
    const key = wanted.get(want);
    let have = key ? byKey.get(key) : at && !old.has(at) && same(at, want) ? at : null;
    if (!have) {
      from.insertBefore(want, at);
      continue;
    }
    let reached = at; // without the nodes that have no counterpart
    while (reached && reached !== have && !old.has(reached)) reached = reached.nextSibling;
    if (reached === have) {
      while (at !== have) at = removed(at);
    } else {
      from.insertBefore(have, at);
    }
    at = have.nextSibling;
    if (have.nodeType === Node.ELEMENT_NODE) morph(have, want);
    else if (have.data !== want.data && !selected(have)) have.data = want.data;
  }
  while (at) at = removed(at);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function same(a, b) {
  return a.nodeName === b.nodeName && (a.nodeType !== Node.ELEMENT_NODE || a.getAttribute("class") === b.getAttribute("class")); // className of SVG is an object
}

function selected(node) {
  const selection = window.getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
}

// keys returns the keys of children that may move: the id or data-key, and in lists and tables the first link.
function keys(parent) {
  const all = new Map(), seen = new Map();
  for (const child of parent.children) {
    const key = child.id || child.dataset.key || (child.matches("tr, li") && child.querySelector("a[href]")?.getAttribute("href"));
    if (!key) continue;
    const n = seen.get(key) ?? 0;
    seen.set(key, n + 1);
    all.set(child, child.nodeName + " " + key + " " + n);
  }
  return all;
}

// New revisions arrive as events. Without a stream, the page still refreshes at its interval.
let revisions = null, refused = 0;
function connect() {
  if (revisions || !window.EventSource || document.hidden || !live() || Date.now() - refused < reconnectMillis) return;
  revisions = new EventSource(root + "live");
  let waiting = 0;
  revisions.addEventListener("revision", (e) => {
    document.dispatchEvent(new CustomEvent("revision", { detail: JSON.parse(e.data) }));
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 100 + Math.random() * 400); // not all pages at once, and once for several revisions
  });
  revisions.onerror = () => {
    if (revisions?.readyState !== EventSource.CLOSED) return; // the browser reconnects
    refused = Date.now();
    revisions = null;
  };
}
function disconnect() {
  revisions?.close();
  revisions = null;
}
connect();
if (live()?.dataset.incomplete !== undefined) refresh(); // the page has parts that take longer
setInterval(() => { connect(); refresh(); }, refreshMillis);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return disconnect(); // a browser has few connections
  connect();
  if (Date.now() - loaded > refreshMillis) refresh();
});
window.addEventListener("pagehide", disconnect);
window.addEventListener("pageshow", connect);

// Send a change once, even after several clicks.
document.addEventListener("submit", (e) => {
  if (!e.target.matches(".decide")) return;
  if (e.target.dataset.sent) e.preventDefault();
  e.target.dataset.sent = "true";
});
window.addEventListener("pageshow", () => document.querySelectorAll(".decide").forEach((form) => delete form.dataset.sent));

const pages = { o: root, c: root + "clusters", p: root + "components", m: root + "matrix", l: root + "layers", r: root + "rollouts", d: root + "definitions", h: root + "changes" };
let afterG = false; // the previous key was g

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = e.target.matches("input:not([type=range]), textarea, select");
  if (typing) {
    if (e.key === "Escape" && !e.defaultPrevented) e.target.blur();
    return;
  }
  const search = document.getElementById("q");
  if (e.key === "/" && search) {
    e.preventDefault();
    search.focus();
    search.select();
  } else if (e.key === "?") {
    location.href = root + "help";
  } else if (e.key === "t" && !afterG) {
    setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme ?? "") + 1) % themes.length]);
  } else if (e.key === "Escape") {
    document.querySelectorAll(".facet[open]").forEach((facet) => { facet.open = false; });
  } else if (["j", "k", "ArrowDown", "ArrowUp"].includes(e.key) && !e.target.matches("[type=range]")) {
    const rows = [...document.querySelectorAll("tbody th a, .changes .what")];
    const at = rows.indexOf(document.activeElement);
    if (!rows.length || at < 0 && e.key.length > 1) return; // arrows scroll until a row has the focus
    if (e.key.length > 1) e.preventDefault();
    rows[Math.min(rows.length - 1, Math.max(0, at + (e.key === "j" || e.key === "ArrowDown" ? 1 : -1)))].focus();
  } else if (afterG && pages[e.key] && search) {
    location.href = pages[e.key];
  }
  afterG = e.key === "g";
});
