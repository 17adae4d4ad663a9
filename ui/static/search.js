// The search field shows the best results while you type. Enter opens the selected or the first one, arrows select, Escape closes.
"use strict";

const searchDelay = 120; // milliseconds after the last key
const field = document.getElementById("q");
const popup = document.createElement("div");
let searchedText = ""; // of the newest request; empty: the list is closed
let pendingRequest = null; // its AbortController; null: it is answered
let openWhenShown = false; // Enter was pressed before the results came
let delay = 0; // timer

const options = () => [...popup.querySelectorAll("[role=option]")];
const selectedOption = () => popup.querySelector("[aria-selected=true]");

function closeResults() {
  clearTimeout(delay);
  pendingRequest?.abort();
  pendingRequest = null;
  searchedText = "";
  openWhenShown = false;
  popup.hidden = true;
  popup.replaceChildren();
  field.setAttribute("aria-expanded", "false");
  field.removeAttribute("aria-activedescendant");
}

// findResults shows the results of the text in the field. An older request is aborted.
async function findResults() {
  clearTimeout(delay);
  const text = field.value.trim();
  if (text === searchedText) return;
  if (!text) return closeResults();
  pendingRequest?.abort();
  const request = (pendingRequest = new AbortController());
  searchedText = text;
  try {
    const answer = await fetch(root + "search/suggest?q=" + encodeURIComponent(text), { signal: request.signal, headers: { "X-Refresh": "true" } });
    if (pendingRequest === request && !answer.ok) throw new Error(answer.status);
    const results = new DOMParser().parseFromString(await answer.text(), "text/html").body;
    if (pendingRequest !== request) return;
    pendingRequest = null; // cleared only after the whole response has arrived: otherwise Enter finds no results
    popup.replaceChildren(...results.childNodes);
    popup.hidden = false;
    field.removeAttribute("aria-activedescendant");
    const n = options().length;
    field.setAttribute("aria-expanded", String(n > 0));
    announce(n ? (n === 1 ? "1 result" : n + " results") + ". Enter opens " + options()[0].querySelector("b, span")?.textContent + "." : "Nothing found.");
    if (openWhenShown) openResult();
  } catch (problem) {
    if (problem.name === "AbortError" || searchedText !== text) return; // another text was searched meanwhile, or the list was closed
    const submit = openWhenShown;
    closeResults();
    if (submit) field.form.submit(); // the page shows the problem
  }
}

function selectResult(option) {
  selectedOption()?.setAttribute("aria-selected", "false");
  if (!option) return field.removeAttribute("aria-activedescendant");
  option.setAttribute("aria-selected", "true");
  option.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", option.id);
}

// openResult opens the selected or the first result. Without any, the form shows the page of the search.
function openResult() {
  const option = selectedOption() ?? options()[0];
  if (option) location.href = option.href;
  else field.form.submit();
}

if (field) {
  popup.className = "found";
  popup.hidden = true;
  field.after(popup);
  for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list" })) field.setAttribute(name, value);
  field.addEventListener("input", () => {
    openWhenShown = false;
    clearTimeout(delay);
    delay = setTimeout(findResults, searchDelay);
  });
  field.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && !popup.hidden) {
      e.preventDefault(); // the next one leaves the field
      closeResults();
    } else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      if (popup.hidden) return findResults();
      const all = [null, ...options()], at = all.indexOf(selectedOption());
      selectResult(all[(at + (e.key === "ArrowDown" ? 1 : all.length - 1)) % all.length]);
    }
  });
  field.form.addEventListener("submit", (e) => {
    if (!field.value.trim()) return;
    e.preventDefault();
    openWhenShown = true;
    if (field.value.trim() !== searchedText) findResults();
    else if (!pendingRequest) openResult();
  });
  field.addEventListener("blur", closeResults);
  popup.addEventListener("mousedown", (e) => e.preventDefault()); // the field keeps the focus, so the click counts
}
