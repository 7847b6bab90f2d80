// What is asked for and what is looked at, kept behind the # of the address, so that a reload or a link has it again.

import {SAVED} from "./api.js";
import {later} from "./dom.js";

const START = {
  run: "", other: "", text: null, prefix: "", beam: 0, alpha: null, // null and 0: as the run has it
  token: 0, layer: "", head: -1, without: [], method: "gradient_x_input",
};

// How contributions are found.
export const METHODS = ["gradient_x_input", "integrated_gradients", "leave_one_out"];

export const state = {...START, ...(SAVED ? SAVED.state : read(location.hash))};

function read(hash) {
  try {
    const found = JSON.parse(decodeURIComponent(hash.slice(1)) || "{}");
    return Object.fromEntries(Object.entries(found).filter(([key, value]) => key in START && fits(key, value)));
  } catch {
    return {};
  }
}

function fits(key, value) {
  if (key === "without") return Array.isArray(value) && value.every((one) => one && Number.isInteger(one.head));
  if (key === "alpha") return Number.isFinite(value);
  if (key === "method") return METHODS.includes(value);
  if (typeof START[key] === "number") return Number.isInteger(value) && value >= START[key];
  return typeof value === typeof (START[key] ?? "");
}

// Changes some of it, and the address with it.
export function put(changes) {
  Object.assign(state, changes);
  if (!SAVED) tell();
}

const tell = later(() => { // browsers take only so many a second
  const told = Object.fromEntries(Object.entries(state).filter(([key, value]) =>
    JSON.stringify(value) !== JSON.stringify(START[key])));
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(told))}`);
}, 150);
