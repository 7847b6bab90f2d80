// The search as it went: a column a step, a row a rank, an edge from each hypothesis to what it was extended to.

import {$, draw, el, fill, number, percent, rove} from "./dom.js";
import {byId, path, ranking} from "./rank.js";
import {say} from "./words.js";

const ROW = 38, HIGH = 26, GAP = 32, EDGE = 14;
const MARKS = {kept: "", finished: "\u25a0", pruned: "\u00d7"};
const ruler = document.createElement("canvas").getContext("2d");

function width(text) {
  ruler.font = getComputedStyle(document.body).font;
  return ruler.measureText(text).width;
}

// The lattice of a trace, the way to the best output standing out; as far as the search went, or whole.
export function showLattice(trace, best, isWhole, force) {
  const steps = trace.steps.slice(0, isWhole ? undefined : Math.max(trace.search_steps, best.length));
  const way = new Set(path(byId(trace), best.id));
  const root = trace.prefix ? "\u2026" : say("start");
  const places = new Map([[null, {x: EDGE, y: EDGE, w: width(root) + 20}]]);
  let x = EDGE + places.get(null).w + GAP, rows = 1;
  for (const step of steps) {
    const wide = Math.max(...step.nodes.map((node) => width(`${node.token} ${MARKS[node.state]}`))) + 22;
    for (const node of step.nodes) places.set(node.id, {x, y: EDGE + node.rank * ROW, w: wide, step: step.length});
    rows = Math.max(rows, ...step.nodes.map((node) => node.rank + 1));
    x += wide + GAP;
  }
  const over = steps[trace.search_steps]; // what is behind it, the search did not need for its own α
  const stop = over ? [end(places.get(over.nodes[0].id).x - GAP / 2, rows * ROW + EDGE)] : [];
  const nodes = steps.flatMap((step) => step.nodes);
  const isOn = (node) => way.has(node.id);
  const edges = [...nodes].sort((a, b) => isOn(a) - isOn(b)).map((node) => edge(places, node, isOn(node)));
  const height = rows * ROW + EDGE;
  const drawn = draw("svg", {width: x - GAP + EDGE, height, viewBox: `0 0 ${x - GAP + EDGE} ${height}`,
    role: "group", "aria-label": say("lattice-of", {steps: steps.length, beam: trace.beam_size})},
  draw("g", {"aria-hidden": "true"}, ...edges, ...stop),
  box(places.get(null), root, "root", ""),
  ...nodes.map((node) => nodeButton(node, places.get(node.id), isOn(node), () =>
    node.text && force(node.text + (node.state === "finished" ? "" : trace.word_end)))));
  fill($("lattice"), drawn);
  describe(null);
}

// A line where the search itself was over; the trace goes on, for the whole range of the slider.
function end(x, height) {
  return draw("line", {x1: x, x2: x, y1: 0, y2: height, class: "end"});
}

function edge(places, node, isOn) {
  const from = places.get(node.parent) || places.get(null), to = places.get(node.id);
  const x = from.x + from.w, y = from.y + HIGH / 2, z = to.y + HIGH / 2, middle = (x + to.x) / 2;
  return draw("path", {d: `M${x} ${y}C${middle} ${y} ${middle} ${z} ${to.x} ${z}`,
    class: `edge ${node.state}${isOn ? " on" : ""}`});
}

function box(place, token, kind, mark) {
  return draw("g", {class: `node ${kind}`, transform: `translate(${place.x} ${place.y})`},
    ...parts(place, token, kind, mark));
}

function parts(place, token, kind, mark) {
  const text = draw("text", {x: 10, y: HIGH / 2 + 5}, token);
  return [draw("rect", {width: place.w, height: HIGH, rx: kind.startsWith("finished") ? 2 : HIGH / 2}),
    kind.startsWith("finished") ? draw("rect", {x: 3, y: 3, width: place.w - 6, height: HIGH - 6, rx: 1}) : null,
    text, mark ? draw("text", {x: place.w - 9, y: HIGH / 2 + 5, "text-anchor": "end", class: "mark"}, mark) : null,
  ].filter(Boolean);
}

function nodeButton(node, place, isOn, fix) {
  return draw("g", {
    class: `node ${node.state}${isOn ? " on" : ""}`, transform: `translate(${place.x} ${place.y})`, role: "button",
    "aria-label": told(node), "data-key": `n${node.id}`, "data-step": place.step, "data-rank": node.rank,
    "data-parent": node.parent ?? "", "data-stop": isOn, onmouseenter: () => describe(node),
    onfocus: () => describe(node), onclick: fix, onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      fix();
    },
  }, ...parts(place, node.token, node.state, MARKS[node.state]));
}

function told(node) {
  const fate = node.state === "pruned" && Number.isFinite(node.lost_by)
    ? say("pruned-by", {nats: number(node.lost_by)}) : say(`state-${node.state}`);
  return say("node", {token: node.token, rank: node.rank + 1, fate, total: number(node.log_probability),
    probability: percent(Math.exp(node.token_log_probability))});
}

function describe(node) {
  fill($("node"), node ? el("b", {}, node.text || node.token) : el("span", {}, say("node-hint")),
    node ? el("span", {}, ` \u00b7 ${told(node)}`) : null);
}

// Arrows in the lattice: to the parent, to the best child, up and down in a step.
export function roveLattice() {
  rove($("lattice"), (item, key, all) => {
    const {step, rank, parent} = item.dataset, own = item.dataset.key.slice(1);
    const at = (s, r) => all.find((one) => one.dataset.step === String(s) && one.dataset.rank === String(r));
    if (key === "ArrowLeft") return all.find((one) => one.dataset.key === `n${parent}`) || item;
    if (key === "ArrowRight") return all.find((one) => one.dataset.parent === own) || item;
    if (key === "ArrowDown") return at(step, Number(rank) + 1) || item;
    if (key === "ArrowUp") return at(step, Number(rank) - 1) || item;
    return null;
  });
}

// What the marks mean.
export function showLegend() {
  fill($("legend"), ...Object.keys(MARKS).map((state) => el("li", {},
    draw("svg", {width: 40, height: HIGH, "aria-hidden": "true"}, box({x: 1, y: 0, w: 38}, "", state, MARKS[state])),
    say(`state-${state}`))),
  el("li", {}, draw("svg", {width: 12, height: HIGH, "aria-hidden": "true"}, end(6, HIGH)), say("search-end")));
}

// What ended, in the order of the scores at α; the first n_best are the answer.
export function showFinished(trace, alpha) {
  const order = ranking(trace.finished, alpha);
  const shown = order.slice(0, 12);
  const heads = ["rank", "score", "log-p", "length", "output"];
  fill($("finished"), el("table", {class: "numbers"}, el("caption", {class: "hidden"}, say("finished")),
    el("thead", {}, el("tr", {}, ...heads.map((name) => el("th", {scope: "col"}, say(name))))),
    el("tbody", {}, ...shown.map(([place, score], rank) => {
      const one = trace.finished[place];
      return el("tr", {class: rank < trace.n_best ? "best" : null, "data-place": place},
        el("td", {}, rank < trace.n_best ? `\u2713 ${rank + 1}` : String(rank + 1)),
        el("td", {}, number(score, 4)), el("td", {}, number(one.log_probability, 3)), el("td", {}, String(one.length)),
        el("th", {scope: "row", dir: "auto"}, one.text || say("nothing"),
          one.finished ? null : el("span", {class: "soft"}, ` ${say("cut")}`)));
    }))),
  order.length > shown.length ? el("p", {class: "note"}, say("more", {count: order.length - shown.length})) : null);
}
