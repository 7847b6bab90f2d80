// What two clients of LibreTranslate for Node make of a server: `node node_clients.mjs NAME < task.json`, run by
// 14_clients.py with NODE_PATH where they are installed. The task and the answer are those of python_clients.py.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const name = process.argv[2];
const task = JSON.parse(readFileSync(0, "utf-8"));
const load = createRequire(pathToFileURL(`${process.env.NODE_PATH}/x.js`));
const module = await import(pathToFileURL(load.resolve(name)));
const rows = [];

async function gives(call, made, wanted) {
  try {
    const found = await made();
    rows.push([call, found === wanted, JSON.stringify(found) ?? "undefined"]);
  } catch (error) {
    rows.push([call, false, String(error)]);
  }
}

async function throws(call, made) {
  try {
    rows.push([call, false, JSON.stringify(await made())]);
  } catch (error) {
    rows.push([call, true, String(error)]);
  }
}

async function translateAll(translate) {
  for (let n = 0; rows.length < task.count; n += 1) {
    const [text, translation] = task.pairs[n % task.pairs.length];
    await gives("translate", () => translate(text), translation);
  }
}

const [text, translation] = task.pairs[0];
if (name === "translate") {
  const client = (options) => module.Translate({ engine: "libre", from: "en", to: "fr", cache: 1,
                                                 url: `${task.open}/translate`, ...options });
  const keyed = { url: `${task.keyed}/translate`, key: task.key };
  await gives("key", () => client(keyed)(text), translation);
  await gives("target as text", () => client({})(`${text} `, "fr"), translation + " ");
  await gives("names of languages", () => client({ to: "en" })(`${text}\n`, { from: "english", to: "French" }),
              translation + "\n");
  module.default.engine = "libre";
  module.default.url = `${task.open}/translate`;
  await gives("default", () => module.default(` ${text}`, { from: "en", to: "fr" }), " " + translation);
  await throws("wrong key", () => client({ ...keyed, key: "x" })("a"));
  await throws("unknown language", () => client({ to: "de" })("b"));
  await throws("no text", () => client({})(""));
  await translateAll(client({}));
} else {
  const ask = (options) => (module.translate ?? module.default.translate)({
    query: text, source: "en", target: "fr", apiurl: task.open, ...options });
  await gives("html", () => ask({ query: `<i>${text}</i>`, format: "html" }), `<i>${translation}</i>`);
  await gives("auto", () => ask({ source: undefined }), translation);
  await throws("unknown language", () => ask({ target: "zz" }));
  await translateAll((text) => ask({ query: text }));
}
process.stdout.write(JSON.stringify(rows));
