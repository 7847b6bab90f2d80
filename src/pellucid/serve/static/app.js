// The page begins here: the language, the theme, the runs; then what each key and click does.

import {Refusal, SAVED, ask} from "./api.js";
import {roveHeads} from "./attention.js";
import {$, rove} from "./dom.js";
import {askAll, clear, compare, force, refresh, showBeside, showFirst, showFrame, showFrom, showRead, showSearch,
  slide} from "./flow.js";
import {measureHeads, showLook} from "./heads.js";
import {roveLattice} from "./lattice.js";
import {savePage} from "./save.js";
import {put, state} from "./state.js";
import {run, trying, view} from "./view.js";
import {language, say, speak} from "./words.js";

const page = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");

// What the reader chose before; nothing where the browser keeps nothing, as for some pages of a disk.
const chosen = {
  get(name) {
    try { return localStorage.getItem(`pellucid ${name}`); } catch { return null; }
  },
  set(name, value) {
    try { localStorage.setItem(`pellucid ${name}`, value); } catch { /* it holds for this page */ }
  },
};

function showAll() {
  speak(language());
  $("language").textContent = say("to-language");
  $("language").lang = language() === "zh" ? "en" : "zh-CN";
  $("theme").textContent = say(isDark() ? "light" : "dark");
  if (!view.runs.length) return;
  showFrame();
  showFirst();
  showSearch();
  showRead();
  showLook();
  showFrom();
  showBeside();
}

const isDark = () => (page.dataset.theme ? page.dataset.theme === "dark" : dark.matches);

function listen() {
  $("skip").addEventListener("click", (event) => { // the # of the address is taken
    event.preventDefault();
    $("main").focus();
  });
  $("language").addEventListener("click", () => {
    const to = language() === "zh" ? "en" : "zh";
    chosen.set("language", to);
    speak(to);
    showAll();
  });
  $("theme").addEventListener("click", () => {
    page.dataset.theme = isDark() ? "light" : "dark";
    chosen.set("theme", page.dataset.theme);
    showAll();
  });
  dark.addEventListener("change", showAll);
  $("save").addEventListener("click", () => trying("", async () => {
    await askAll();
    await savePage(view.gains);
  }));
  for (const id of ["tokens", "which", "instead"]) rove($(id));
  roveLattice();
  roveHeads();
  listenToSearch();
}

function listenToSearch() {
  const typed = (id, act) => $(id).addEventListener("input", (event) => {
    if (!event.isComposing) act();
  });
  for (const id of ["text", "output"]) { // a word written with an input method counts once it is written
    $(id).addEventListener("compositionend", () => $(id).dispatchEvent(new InputEvent("input")));
  }
  typed("text", () => {
    put({text: $("text").value.replace(/\n+$/, ""), prefix: "", token: 0}); // Enter is no word
    refresh();
  });
  typed("output", () => force($("output").value.slice(0, $("output").selectionStart)));
  $("output").addEventListener("scroll", () => { $("ghost").scrollTop = $("output").scrollTop; });
  $("free").addEventListener("click", () => {
    force("");
    $("output").focus();
  });
  $("beam").addEventListener("input", () => {
    const width = $("beam").valueAsNumber;
    if (!(width >= 1 && width <= 16)) return;
    put({beam: Math.round(width)});
    refresh();
  });
  $("alpha").addEventListener("input", () => slide($("alpha").valueAsNumber));
  $("run").addEventListener("change", () => {
    put({run: $("run").value, prefix: "", without: [], beam: 0, alpha: null, token: 0});
    clear();
    showFrame();
    refresh();
  });
  $("other").addEventListener("change", () => {
    put({other: $("other").value});
    trying("beside", compare);
  });
  $("matter").addEventListener("click", () => trying("look", measureHeads));
}

async function begin() {
  const told = page.dataset.language; // of PELLUCID_LANG, where that is set
  const wanted = chosen.get("language") || told || navigator.language;
  if (chosen.get("theme")) page.dataset.theme = chosen.get("theme");
  speak(wanted.toLowerCase().startsWith("zh") ? "zh" : "en");
  if (SAVED) {
    for (const id of ["text", "output"]) $(id).readOnly = true;
    for (const id of ["save", "matter"]) $(id).hidden = true;
  }
  listen();
  addEventListener("hashchange", () => location.reload()); // a link into this very page, or back from one
  await trying("", async () => {
    view.runs = (await ask("runs", "v1/runs")).runs;
    if (!view.runs.length) throw new Refusal(say("no-runs"));
    if (!view.runs.some((one) => one.name === state.run)) put({run: view.runs[0].name});
    if (state.text === null) put({text: run().example || (run().source_language === "en" ? "the cat sleeps ." : "")});
    $("text").value = state.text;
  });
  showAll();
  if (view.runs.length) refresh();
}

begin();
