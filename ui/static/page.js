// Optional behavior of the page: a visible page refreshes itself, shows its age, and has keyboard shortcuts.
"use strict";

const refreshMillis = 15000;
let loaded = Date.now();

const live = () => document.getElementById("live");

function showAge() {
  const at = document.getElementById("read-at");
  if (!at) return;
  const seconds = Math.round((Date.now() - loaded) / 1000);
  at.textContent = seconds < 5 ? "now" : seconds < 90 ? seconds + " s ago" : Math.round(seconds / 60) + " min ago";
  at.closest(".fresh").classList.toggle("old", seconds > 60);
}

document.addEventListener("htmx:afterSwap", () => { loaded = Date.now(); showAge(); });
// After a failed refresh the old content stays, below a warning.
function showLost() {
  if (document.getElementById("lost") || !live()) return;
  const note = document.createElement("p");
  note.id = "lost";
  note.className = "note warn";
  note.setAttribute("role", "alert");
  note.textContent = "The fleet cannot be read at the moment. The data below is from the last successful load.";
  live().before(note);
}
document.addEventListener("htmx:sendError", showLost);
document.addEventListener("htmx:responseError", showLost);
document.addEventListener("htmx:afterSwap", () => document.getElementById("lost")?.remove());
setInterval(showAge, 1000);
setInterval(() => {
  const busy = document.activeElement.matches("input") || !window.getSelection().isCollapsed;
  if (live() && !document.hidden && !busy) htmx.trigger(live(), "refresh");
}, refreshMillis);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && live() && Date.now() - loaded > refreshMillis) htmx.trigger(live(), "refresh");
});

// Send a change once, even after several clicks.
document.addEventListener("submit", (e) => {
  if (!e.target.matches(".decide")) return;
  if (e.target.dataset.sent) e.preventDefault();
  e.target.dataset.sent = "true";
});
window.addEventListener("pageshow", () => document.querySelectorAll(".decide").forEach((form) => delete form.dataset.sent));

const root = document.querySelector("a.brand").getAttribute("href"); // /ui/, below the service's base path
const pages = { o: root, c: root + "clusters", p: root + "components", l: root + "layers", r: root + "rollouts", d: root + "definitions", h: root + "changes" };
let afterG = false; // the previous key was g

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = e.target.matches("input, textarea, select");
  if (typing) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  const search = document.getElementById("q");
  if (e.key === "/" && search) {
    e.preventDefault();
    search.focus();
    search.select();
  } else if (e.key === "j" || e.key === "k") {
    const rows = [...document.querySelectorAll("tbody th a, .changes .what")];
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, at + (e.key === "j" ? 1 : -1)))].focus();
  } else if (afterG && pages[e.key] && search) {
    location.href = pages[e.key];
  }
  afterG = e.key === "g";
});
