// One file that replays what is on the page: the page itself, all in one, with the answers it was made from.

import {Refusal, remembered} from "./api.js";
import {state} from "./state.js";

// Hands the file to the browser, as a download; `gains` are what the heads were found to matter.
export async function savePage(gains) {
  const response = await fetch("replay.html").catch(() => null);
  if (!response?.ok) throw new Refusal("unreachable");
  const page = await response.text();
  const all = {state: {...state}, gains: gains && {...gains, each: [...gains.each]}, answers: remembered(state.text)};
  const saved = JSON.stringify(all).replaceAll("<", "\\u003c"); // no end of a script in it
  const whole = page.replace("{saved}", () => saved); // the first of them, before any script
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([whole], {type: "text/html"}));
  link.download = `pellucid-${state.run || "page"}.html`.replaceAll(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
