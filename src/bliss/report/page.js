"use strict";

const root = document.documentElement;
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

function remember(theme) {
  try {
    localStorage.setItem("bliss-theme", theme);
  } catch {
    // some browsers deny storage to pages opened from disk
  }
}

function remembered() {
  try {
    return localStorage.getItem("bliss-theme");
  } catch {
    return null;
  }
}

function theme() {
  return root.dataset.theme || (prefersDark.matches ? "dark" : "light");
}

function setUpTheme() {
  const button = document.getElementById("theme");
  const say = () => {
    const other = theme() === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Change to ${other} colours`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    remember(root.dataset.theme);
    say();
  });
  prefersDark.addEventListener("change", say);
  say();
}

// Numbers sort as numbers, text as text; missing values come last in both directions.
function compare(first, second, column, isNumeric, sign) {
  const [a, b] = [first, second].map((row) => {
    const cell = row.cells[column];
    return isNumeric ? cell.dataset.value : cell.textContent.replace(/^–$/, "");
  });
  if (a === "" || b === "") return (a === "") - (b === "");
  return sign * (isNumeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true }));
}

function sort(header) {
  const table = header.closest("table");
  const sign = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const isNumeric = header.classList.contains("number");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  rows.sort((a, b) => compare(a, b, header.cellIndex, isNumeric, sign));
  body.append(...rows);
  for (const other of header.parentElement.cells) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
}

const kept = remembered();
if (kept === "dark" || kept === "light") root.dataset.theme = kept;

document.addEventListener("DOMContentLoaded", () => {
  setUpTheme();
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sort(button.closest("th")));
  }
});

// Printing unfolds everything and uses the light theme; afterwards both are restored.
let folded = [];
let before;
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
  before = root.dataset.theme;
  root.dataset.theme = "light";
});
window.addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
  if (before) root.dataset.theme = before;
  else delete root.dataset.theme;
});
