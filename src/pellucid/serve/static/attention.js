// Who looked at whom: a small map of every head, one of them large with its lines, and heads switched off.

import {$, change, el, draw, fill, number, percent, rove, table} from "./dom.js";
import {average} from "./rank.js";
import {nameOf, say} from "./words.js";

const LINE = 30, ACROSS = 90; // the lines are stretched to the room that there is
const SMALLEST = 14, LARGEST = 36, NAMES = 120; // pixels: of a cell, and for the names beside a map
const MANY = 16; // columns, above which a map stands below the lines

const CHINESE = /[\u2e80-\ud7ff\uf900-\ufaff]/; // what is written from top to bottom

// Paints a map of numbers, a cell of this many pixels each: the more, the less one sees through. `most` is opaque;
// where numbers have a sign, those below 0 have the canvas's other colour.
export function paint(canvas, map, most, cell) {
  canvas.width = Math.max(1, map[0].length * cell);
  canvas.height = Math.max(1, map.length * cell);
  const pen = canvas.getContext("2d"), style = getComputedStyle(canvas);
  const colours = [style.color, style.outlineColor];
  map.forEach((row, t) => row.forEach((value, s) => {
    pen.globalAlpha = Math.min(1, Math.abs(value) / most);
    pen.fillStyle = colours[value < 0 ? 1 : 0];
    pen.fillRect(s * cell, t * cell, cell, cell);
  }));
}

// The tokens of an attention's rows and columns.
export const sides = (answer, one) => [
  one.rows === "source" ? answer.source_tokens : answer.written,
  {source: answer.source_tokens, read: answer.read}[one.columns]];

export const isOff = (without, name, head) => without.some((one) => one.attention === name && one.head === head);

const mapOf = (one, head) => (head < 0 ? average(one.weights) : one.weights[head]);

// A small map of every head of every attention; `gains` are what switching each off changes, where that is known.
export function showHeads(answer, chosen, without, gains, choose) {
  fill($("heads"), ...answer.attentions.map((one, layer) => el("div", {class: "layer"},
    el("p", {class: "name", id: `layer-${layer}`}, nameOf(one)),
    el("div", {class: "minis", role: "group", "aria-labelledby": `layer-${layer}`},
      ...[-1, ...one.weights.keys()].map((head) => {
        const canvas = el("canvas", {class: "mini", "aria-hidden": "true"});
        const off = isOff(without, one.name, head), gain = gains?.get(`${one.name} ${head}`);
        const button = el("button", {
          type: "button", class: off ? "head off" : "head", "data-key": `${one.name} ${head}`, "data-layer": layer,
          "data-head": head, "aria-pressed": String(chosen.layer === one.name && chosen.head === head),
          onclick: () => choose(one.name, head),
        }, canvas, el("span", {}, head < 0 ? say("mean") : String(head + 1),
          off ? el("span", {class: "hidden"}, ` ${say("off")}`) : null),
        gain === undefined ? null : el("span", {class: "gain"}, change(gain)));
        requestAnimationFrame(() => paint(canvas, mapOf(one, head), 1, 4));
        return button;
      })))));
}

export function roveHeads() {
  rove($("heads"), (item, key, all) => {
    const by = {ArrowUp: -1, ArrowDown: 1}[key];
    if (!by) return null;
    const {layer, head} = item.dataset;
    return all.find((one) => one.dataset.layer === String(Number(layer) + by) && one.dataset.head === head) || item;
  });
}

// One head, or the mean of all: its lines and its map.
export function showHead(answer, one, head) {
  const [rows, columns] = sides(answer, one), map = mapOf(one, head);
  const cell = (text) => fill($("cell"), el("span", {}, text));
  const name = nameOf(one), heads = one.weights.length;
  $("map-title").textContent = head < 0 ? say("mean-of", {name, heads}) : say("head-of", {name, head: head + 1});
  cell(say("look-hint"));
  $("map").parentElement.classList.toggle("long", columns.length > MANY);
  const light = showLines(rows, columns, map);
  const about = say("map", {rows: rows.length, columns: columns.length});
  fill($("map"), bigMap($("map").clientWidth, rows, columns, map, 1, about, (t, s) => {
    cell(say("looks", {row: rows[t], column: columns[s], share: percent(map[t][s])}));
    light(t);
  }), scale(`${say("weights")}: 0`, "1"));
  fill($("weights"), table(say("weights"), columns, rows, map.map((row) => row.map((value) => value.toFixed(3)))));
}

// A map, in a room of this many pixels, with its tokens beside it and above it; `tell(t, s)` when the pointer is over
// a cell.
export function bigMap(room, rows, columns, map, most, about, tell) {
  const cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor((room - NAMES) / columns.length)));
  const canvas = el("canvas", {class: "weights", role: "img", "aria-label": about});
  canvas.addEventListener("mousemove", (event) => {
    const t = Math.floor(event.offsetY / cell), s = Math.floor(event.offsetX / cell);
    if (map[t]?.[s] !== undefined) tell(t, s);
  });
  requestAnimationFrame(() => paint(canvas, map, most, cell));
  const names = (kind, tokens) => el("div", {class: kind, "aria-hidden": "true"},
    ...tokens.map((token) => el("span", {class: CHINESE.test(token) ? null : "turned", title: token}, token)));
  return el("div", {class: "wide", tabindex: "0", role: "region", "aria-label": about},
    el("div", {class: "grid", "--cell": `${cell}px`}, names("across", columns), names("down", rows), canvas));
}

// What the colours of a map mean, from its lowest number to its highest.
export const scale = (low, high, kind = "") => el("p", {class: "scale figure"}, low,
  el("span", {class: `ramp ${kind}`, "aria-hidden": "true"}), high);

// Two lines of tokens, and who looks at whom between them; gives what lights one of those that look.
function showLines(rows, columns, map) {
  const height = LINE * Math.max(rows.length, columns.length);
  const paths = rows.map((_, t) => columns.map((_, s) => draw("line", {x1: 0, y1: LINE * (t + 0.5), x2: ACROSS,
    y2: LINE * (s + 0.5), "stroke-opacity": map[t][s].toFixed(3), class: "sight"})));
  const seen = columns.map((token) => el("li", {class: "key", title: token}, el("span", {class: "piece"}, token),
    el("span", {class: "figure"}), el("span", {class: "meter", "aria-hidden": "true"})));
  const light = (t) => {
    paths.forEach((row, i) => row.forEach((line, s) => {
      line.setAttribute("class", t === null ? "sight" : i === t ? "sight lit" : "sight dim");
      line.setAttribute("stroke-width", String(i === t ? 1 + 4 * map[i][s] : 1.5));
    }));
    seen.forEach((item, s) => {
      item.children[1].textContent = t === null ? "" : percent(map[t][s]);
      item.children[2].style.setProperty("--p", t === null ? 0 : map[t][s]);
    });
    buttons.forEach((button, i) => button.classList.toggle("lit", i === t));
  };
  const spoken = (t) => [...map[t].entries()].sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([s, w]) => `${columns[s]} ${percent(w)}`).join(", ");
  const buttons = rows.map((token, t) => el("button", {type: "button", class: "query", title: token,
    "data-key": `q${t}`, "aria-label": say("query", {token, keys: spoken(t)}), onmouseenter: () => light(t),
    onfocus: () => light(t), onclick: () => light(t)}, token));
  const box = el("div", {class: "looks", onmouseleave: () => light(null)},
    el("div", {class: "queries", role: "toolbar", "aria-label": say("queries"), "aria-orientation": "vertical"},
      ...buttons),
    draw("svg", {class: "between", viewBox: `0 0 ${ACROSS} ${height}`, height, preserveAspectRatio: "none",
      "aria-hidden": "true"}, ...paths.map((row) => draw("g", {}, ...row))), // a call takes only so many children
    el("ul", {class: "keys"}, ...seen));
  fill($("lines"), box);
  rove(box.firstChild);
  buttons.forEach((button, i) => button.setAttribute("tabindex", i ? "-1" : "0"));
  return light;
}

// What the heads that are off do: to the output and to its log-probability, or to the probability of the label.
export function showEffect(answer, without) {
  const heads = (one) => without.filter((off) => off.attention === one.name).map((off) => off.head + 1)
    .sort((a, b) => a - b).join(", ");
  const names = answer.attentions.filter(heads).map((one) => `${nameOf(one)}: ${heads(one)}`).join(" \u00b7 ");
  const line = (name, ...values) => el("p", {}, el("span", {class: "soft"}, `${name} `), ...values);
  const told = answer.probabilities ? labelEffect(answer, line) : outputEffect(answer, line);
  fill($("effect"), ...(without.length ? [el("p", {}, `${say("switched-off")} ${names}`), ...told] : []));
}

function labelEffect({label, probabilities, probabilities_without: without}, line) {
  const told = (name, from) => line(say(name), el("b", {}, label), ` ${percent(from[label])}`);
  return without ? [told("as-is", probabilities), told("then", without)] : [];
}

function outputEffect(answer, line) {
  const {output, output_without: then, log_probability: before, log_probability_without: after} = answer;
  if (typeof after !== "number") return [];
  return [line(say("as-is"), el("b", {}, output), ` (log P ${number(before)})`),
    line(say("then"), el("b", {}, then || say("nothing")), then === output ? ` (${say("same")})` : ""),
    line(say("cost"), `${number(after)} (${change(after - before)} nats)`)];
}

// How much worse, or better, the answer is without a head: what its log-probability, or the label's, changes by.
export const gainOf = (answer) => (answer.probabilities
  ? Math.log(answer.probabilities_without[answer.label] / answer.probabilities[answer.label])
  : answer.log_probability_without - answer.log_probability);

// The largest magnitude among the heads, for a list of those that matter.
export const strongest = (gains, count) => [...gains].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, count);

