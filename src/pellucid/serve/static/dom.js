// Elements, numbers and the arrow keys: nothing here knows what it shows. Text comes in as text, never as HTML.

export const $ = (id) => document.getElementById(id);

// An element with these attributes and children; "onclick" listens, "--p" sets a property of its style.
export function el(tag, about = {}, ...children) {
  return dress(document.createElement(tag), about, children);
}

// The same of SVG.
export function draw(tag, about = {}, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), about, children);
}

function dress(node, about, children) {
  for (const [key, value] of Object.entries(about)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) node.style.setProperty(key, value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

// New children in a box; what had the focus has it again, known by its data-key.
export function fill(box, ...children) {
  const held = box.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  box.replaceChildren(...children.filter((child) => child !== null));
  const again = held === undefined ? null : items(box).find((one) => one.dataset.key === held);
  setStop(box, again);
  if (again) again.focus();
}

const items = (box) => [...box.querySelectorAll("[data-key]")];

function setStop(box, item) {
  if (!box.hasAttribute("data-rove")) return;
  const all = items(box);
  const stop = item || all.find((one) => one.matches("[aria-pressed=true], [data-stop]")) || all[0];
  for (const one of all) one.setAttribute("tabindex", one === stop ? "0" : "-1");
}

// Tab reaches one item of the box, the arrows the others. `next(item, key, all)` says which; without it they are a row.
export function rove(box, next = null) {
  box.setAttribute("data-rove", "");
  box.addEventListener("focusin", (event) => setStop(box, event.target.closest("[data-key]")));
  box.addEventListener("keydown", (event) => {
    const item = event.target.closest("[data-key]");
    if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
    const all = items(box);
    const to = (next && next(item, event.key, all)) || inRow(item, event.key, all);
    if (!to) return;
    event.preventDefault();
    to.focus();
  });
}

function inRow(item, key, all) {
  const at = all.indexOf(item);
  const to = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0,
    End: all.length - 1}[key];
  return to === undefined ? null : all[Math.max(0, Math.min(all.length - 1, to))];
}

// 0.9231 as 92 %, with a digit more where it matters.
export function percent(p) {
  const x = 100 * p;
  if (x > 0 && x < 0.05) return "<0.1\u202f%";
  return `${x < 10 || (x > 99 && x < 99.95) ? x.toFixed(1) : x.toFixed(0)}\u202f%`;
}

// With a true minus sign; what is null was not finite: the logarithm of 0.
export function number(x, digits = 2) {
  if (x === null) return "\u2212\u221e";
  const text = Math.abs(x).toFixed(digits);
  return x < 0 && Number(text) !== 0 ? `\u2212${text}` : text;
}

// The same, with a plus where it is more.
export const change = (x, digits = 2) => (x > 0 && Number(x.toFixed(digits)) !== 0 ? "+" : "") + number(x, digits);

// Calls once it has not been asked to for so many milliseconds, and is done when that is.
export function later(call, milliseconds) {
  let latest = 0;
  return async (...given) => {
    const turn = ++latest;
    await new Promise((go) => setTimeout(go, milliseconds));
    if (turn === latest) await call(...given);
  };
}

// A table of numbers with its heads, for those who would rather read than look.
export function table(caption, columns, rows, cells) {
  return el("div", {class: "wide", tabindex: "0", role: "region", "aria-label": caption},
    el("table", {class: "numbers"}, el("caption", {class: "hidden"}, caption),
      el("thead", {}, el("tr", {}, el("td"), ...columns.map((name) => el("th", {scope: "col"}, name)))),
      el("tbody", {}, ...rows.map((name, i) => el("tr", {}, el("th", {scope: "row"}, name),
        ...cells[i].map((value) => el("td", {}, value)))))));
}
