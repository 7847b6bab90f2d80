// Of a run that reads: the answer, and the passages it was looked for in, marked.

import {$, el, fill, number, percent} from "./dom.js";
import {say} from "./words.js";

const place = (one) => `${one.document}[${one.start}:${one.end}]`;

export function showAnswer(told) {
  const share = percent(told.score);
  fill($("answer"), ...(!told.passages.length ? [say("no-passage")]
    : told.document === null ? [say("no-answer", {share})]
    : [el("strong", {}, told.answer), ` ${say("answer-of", {place: place(told), share})}`]));
  fill($("passages"), ...told.passages.map((one) => el("li", {},
    el("p", {class: "note"}, say("passage-of", {place: place(one), title: one.title, score: number(one.score)})),
    el("p", {class: "passage", dir: "auto"}, ...marked(one, told)))));
}

// The text in runs of characters, as the server counts them: code points.
function marked(one, told) {
  const kinds = [...one.text].map(() => "");
  const mark = (start, end, kind) => kinds.fill(kind, Math.max(0, start - one.start), Math.max(0, end - one.start));
  for (const [start, end] of one.matched) mark(start, end, "u");
  if (told.document === one.document) mark(told.start, told.end, "mark");
  const parts = [];
  [...one.text].forEach((letter, i) => {
    if (i && kinds[i] === kinds[i - 1]) parts.at(-1)[1] += letter;
    else parts.push([kinds[i], letter]);
  });
  return parts.map(([kind, text]) => (kind ? el(kind, {}, text) : document.createTextNode(text)));
}
