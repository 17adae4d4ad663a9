// What the page does beyond links and forms: it reads itself again while somebody looks, says how old it is, and has keys.
"use strict";

const every = 15000;
let read = Date.now();

const live = () => document.getElementById("live");

function age() {
  const at = document.getElementById("read-at");
  if (!at) return;
  const seconds = Math.round((Date.now() - read) / 1000);
  at.textContent = seconds < 5 ? "now" : seconds < 90 ? seconds + " s ago" : Math.round(seconds / 60) + " min ago";
  at.closest(".fresh").classList.toggle("old", seconds > 60);
}

document.addEventListener("htmx:afterSwap", () => { read = Date.now(); age(); });
// What could not be read again stays, and is said to be old.
function lost() {
  if (document.getElementById("lost") || !live()) return;
  const note = document.createElement("p");
  note.id = "lost";
  note.className = "note warn";
  note.setAttribute("role", "alert");
  note.textContent = "The fleet cannot be read at the moment. What follows is what was read before.";
  live().before(note);
}
document.addEventListener("htmx:sendError", lost);
document.addEventListener("htmx:responseError", lost);
document.addEventListener("htmx:afterSwap", () => document.getElementById("lost")?.remove());
setInterval(age, 1000);
setInterval(() => {
  const busy = document.activeElement.matches("input") || !window.getSelection().isCollapsed;
  if (live() && !document.hidden && !busy) htmx.trigger(live(), "refresh");
}, every);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && live() && Date.now() - read > every) htmx.trigger(live(), "refresh");
});

// A change is sent once, however often somebody clicks.
document.addEventListener("submit", (e) => {
  if (!e.target.matches(".decide")) return;
  if (e.target.dataset.sent) e.preventDefault();
  e.target.dataset.sent = "true";
});
window.addEventListener("pageshow", () => document.querySelectorAll(".decide").forEach((form) => delete form.dataset.sent));

const root = document.querySelector("a.brand").getAttribute("href"); // /ui/, below the service's base path
const pages = { o: root, c: root + "clusters", p: root + "components", l: root + "layers", d: root + "definitions", h: root + "changes" };
let waiting = false;

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
  } else if (waiting && pages[e.key] && search) {
    location.href = pages[e.key];
  }
  waiting = e.key === "g";
});
