// The strip shows the counts of one interval, and its marks, as text: below the pointer, or at the slider, which arrow keys move.
"use strict";

const stripInterval = 300000;
let stripAt = 0; // the time that was chosen; 0: none

// showInterval shows the interval of the chosen time, which stays the same when the strip moves on.
function showInterval() {
  const svg = document.querySelector(".strip svg");
  if (!svg) return;
  const slider = document.querySelector(".strip input"), slots = svg.dataset.counts.split(";"), begin = Date.parse(svg.dataset.begin);
  const slot = stripAt ? Math.min(slots.length - 1, Math.max(0, Math.floor((stripAt - begin) / stripInterval))) : slots.length - 1;
  const states = svg.dataset.states.split(",");
  const at = new Date(begin + slot * stripInterval).toISOString().slice(11, 16) + " UTC";
  const marks = [...svg.querySelectorAll(`.hit[x="${slot}"] ~ title`)].map((title) => title.textContent);
  if (marks.length > 3) marks.splice(3, marks.length, "and " + (marks.length - 3) + " more");
  const text = at + ": " + [slots[slot] ? slots[slot].split(",").map((n, i) => n + " " + states[i]).join(", ") : "no data", ...marks].join("; ");
  slider.value = slot;
  slider.setAttribute("aria-valuetext", text);
  if (!stripAt) return;
  document.getElementById("strip-at").textContent = text;
  svg.querySelector(".cursor").setAttribute("x", slot);
}

function chooseInterval(slot) {
  stripAt = Date.parse(document.querySelector(".strip svg").dataset.begin) + slot * stripInterval;
  showInterval();
}

document.addEventListener("input", (e) => {
  if (e.target.matches(".strip input")) chooseInterval(e.target.valueAsNumber);
});
document.addEventListener("keydown", (e) => {
  const mark = e.key === "Enter" && e.target.matches(".strip input") && document.querySelector(`.strip a:has(.hit[x="${e.target.value}"])`);
  if (mark) location.href = mark.getAttribute("href");
});
document.addEventListener("pointermove", (e) => {
  const svg = e.target.closest?.(".strip svg");
  if (!svg) return;
  const box = svg.getBoundingClientRect(), last = svg.dataset.counts.split(";").length - 1;
  chooseInterval(Math.min(last, Math.max(0, Math.floor(((e.clientX - box.left) / box.width) * (last + 1)))));
});
document.addEventListener("refreshed", showInterval);
showInterval();
