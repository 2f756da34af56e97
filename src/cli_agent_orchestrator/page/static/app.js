// The page in the browser. The server makes the HTML; this shows it, keeps it up to date, and
// passes on what people do:
//
//   data-post="/runs/x/pause"   a button or a form that asks the server for something, with
//     data-body='{…}'           fields besides those of the form,
//     data-confirm="Sure?"      a question before,
//     data-said="Sent."         what is said afterwards, if the answer has no words,
//     data-then="/runs/{id}"    a page to go to afterwards, with fields of the answer;
//     [data-busy="Starting …"]  a button in it that says this meanwhile,
//     [data-problem]            a place in it for what is wrong, else it is said in the corner,
//     data-words='{…}'          what the server calls something, and how it is called in the form
//   data-fragment="/dashboard/…"  a <details> whose [data-into] is fetched when it is opened, or a
//                               button in it that fetches something else
//   data-comment                a button at a line of a diff

const SIGN_IN = "/dashboard/sign-in";
const KEY = "cao-key"; // where the browser keeps its key, for pages of this very port
const PORT = "cao-port"; // and the port of the server that gave it; over ssh it may be another
const QUIET_MS = 40_000; // the server gives a sign of life every 15 s
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 2_000;
const SAID_MS = 8_000;
const SLOW_MS = 4_000;
const FOCUSABLE = "a, button, input, select, textarea, summary, [tabindex]";

const byId = (id) => document.getElementById(id);
const main = byId("main");
const shown = new Map(); // the HTML of the parts in the page, by id

// Asking the server

class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

let isOurs = false; // the server at this port, as long as the stream of the page lasts

// While our server is down, another user of the machine may listen at its port and wait for the
// key. So it is sent only to a server that knows it already, and listens at the port of the one that
// gave it: else the other could ask another server of ours, and pass its answer on.
async function check(key) {
  const hex = (bytes) => [...new Uint8Array(bytes)].map((one) => one.toString(16).padStart(2, "0")).join("");
  const bytes = (text) => new TextEncoder().encode(text);
  const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
  const response = await fetch(`/dashboard/proof?expiry=${parseInt(key)}&nonce=${nonce}`, { cache: "no-store" });
  const { proof } = await response.json();
  const hmac = await crypto.subtle.importKey("raw", bytes(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  if (proof !== hex(await crypto.subtle.sign("HMAC", hmac, bytes(`${localStorage.getItem(PORT)} ${nonce}`)))) {
    throw new Problem(401, "the server at this port did not sign this browser in");
  }
  isOurs = true;
}

async function ask(path, options = {}) {
  const key = path !== SIGN_IN && localStorage.getItem(KEY);
  if (key && !isOurs) await check(key);
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new Problem(response.status, answer.detail ?? `The server answered ${response.status}.`);
}

async function post(path, body) {
  const slow = setTimeout(() => say("The server has not answered yet …"), SLOW_MS);
  try {
    return await (await ask(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    })).json();
  } finally {
    clearTimeout(slow);
  }
}

const fragment = async (path) =>
  (await ask(`/dashboard/fragment?path=${encodeURIComponent(path)}`)).text();

// Text of ours, in which `what is typed somewhere` stands between such marks.
function write(element, text) {
  element.replaceChildren(...text.split("`").map((piece, place) => {
    if (place % 2 === 0) return piece;
    const code = document.createElement("code");
    code.textContent = piece;
    return code;
  }));
}

const words = (error) =>
  error instanceof Problem ? error.message : "The server cannot be reached; is it running?";

let silence;
function say(text, isProblem = false) {
  const said = byId("said");
  write(said, text);
  said.classList.toggle("problem", isProblem);
  clearTimeout(silence);
  silence = setTimeout(() => { said.textContent = ""; }, SAID_MS);
}

// Showing what the server sends

function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

// The same element in another version of a part: by its id, else by its place among its like.
function twin(element, before, after, selector) {
  if (element === before) return after;
  if (element.id) return after.querySelector(`#${CSS.escape(element.id)}`);
  const place = [...before.querySelectorAll(selector)].indexOf(element);
  const other = after.querySelectorAll(selector)[place];
  return other?.tagName === element.tagName ? other : null;
}

const within = (part, selector) =>
  [...(part.matches(selector) ? [part] : []), ...part.querySelectorAll(selector)];

const isChanged = (field) => {
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.options) return [...field.options].some((one) => one.selected !== one.defaultSelected);
  return field.value !== field.defaultValue;
};

// What a person has opened, typed or scrolled to is carried over to the new version of a part.
function carryOver(before, after) {
  for (const details of within(before, "details[open]")) {
    const other = twin(details, before, after, "details");
    if (!other) continue;
    other.open = true;
    const [from, to] = [details, other].map((one) => one.querySelector("[data-into]"));
    if (from && to && other.dataset.fragment) {
      const isNewer = details.dataset.fragment !== other.dataset.fragment;
      to.replaceChildren(...from.childNodes);
      other.dataset.loaded = "";
      if (isNewer && !to.querySelector("form")) load(to, other.dataset.fragment);
    }
  }
  for (const field of within(before, "input, textarea, select")) {
    const other = isChanged(field) && twin(field, before, after, "input, textarea, select");
    if (other && field.type === "checkbox") other.checked = field.checked;
    else if (other) other.value = field.value;
  }
  return within(before, "[tabindex]")
    .filter((one) => one.scrollTop || one.scrollLeft)
    .map((one) => [twin(one, before, after, "[tabindex]"), one.scrollTop, one.scrollLeft]);
}

// Opened at its end, where a run is now; it stays there until somebody scrolls it elsewhere.
const AT_END = ".timeline-scroll";
const isAtEnd = (one) => one.scrollLeft + one.clientWidth >= one.scrollWidth - 2;
const toEnd = (one) => one.scrollTo({ left: one.scrollWidth, behavior: "instant" });

function replace(before, after) {
  const ends = within(before, AT_END).map(isAtEnd);
  const active = document.activeElement;
  const focused = before.contains(active) ? twin(active, before, after, FOCUSABLE) : null;
  const caret = [active?.selectionStart, active?.selectionEnd];
  const scrolled = carryOver(before, after);
  before.replaceWith(after);
  for (const [element, top, left] of scrolled) element?.scrollTo({ top, left, behavior: "instant" });
  within(after, AT_END).filter((_, place) => ends[place] ?? true).forEach(toEnd);
  // What was fetched before has been moved, and has lost the focus by that.
  const target = after.contains(active) ? active : focused;
  if (!target || target === document.activeElement) return;
  target.focus({ preventScroll: true });
  if (caret[0] != null) target.setSelectionRange?.(...caret);
}

function nextPart(element) {
  let next = element;
  do next = next.nextElementSibling; while (next && !shown.has(next.id));
  return next;
}

function place(element, into, after) {
  const holder = byId(into);
  if (!holder) return;
  const previous = after && byId(after);
  if (previous) {
    if (nextPart(previous) !== element) previous.after(element);
    return;
  }
  const first = [...holder.children].find((one) => shown.has(one.id));
  if (first !== element || !first) first ? first.before(element) : holder.append(element);
}

function showPart({ id, into, html, after }) {
  let element = byId(id);
  const isAdded = !element;
  if (!element || shown.get(id) !== html) {
    const made = parsed(html).firstElementChild;
    if (element) replace(element, made);
    element = made;
  }
  if (after !== undefined || !element.isConnected) place(element, into, after);
  if (isAdded) within(element, AT_END).forEach(toEnd);
  shown.set(id, html);
}

function drop(id) {
  const element = byId(id);
  if (element?.contains(document.activeElement)) main.focus({ preventScroll: true });
  element?.remove();
  shown.delete(id);
}

function show({ title, parts, gone }, isFirst) {
  document.title = title ? `${title} · cao` : "cao";
  byId("waiting")?.remove();
  byId("sign-in")?.remove();
  if (isFirst) {
    // After a break all parts come again; those that do not are gone.
    const present = new Set(parts.map((part) => part.id));
    [...shown.keys()].filter((id) => !present.has(id)).forEach(drop);
  }
  gone.forEach(drop);
  parts.forEach(showPart);
  forgetSure();
}

// Keeping up to date

let following; // what ends the present stream

async function follow(path) {
  const ending = (following = new AbortController());
  const stop = () => ending.abort();
  let patience = setTimeout(stop, QUIET_MS);
  let isFirst = true;
  try {
    const address = `/dashboard/stream?path=${encodeURIComponent(path)}`;
    const response = await ask(address, { signal: ending.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let got = await reader.read(); !got.done; got = await reader.read()) {
      clearTimeout(patience);
      patience = setTimeout(stop, QUIET_MS);
      const messages = (rest + got.value).split("\n\n");
      rest = messages.pop();
      for (const message of messages) {
        const line = message.split("\n").find((one) => one.startsWith("data: "));
        if (!line) continue;
        const update = JSON.parse(line.slice("data: ".length));
        if (update.problem) throw new Problem(0, update.problem);
        show(update, isFirst);
        if (isFirst) settled();
        isFirst = false;
      }
    }
  } finally {
    isOurs = false;
    clearTimeout(patience);
    ending.abort();
  }
  return !isFirst;
}

function settled() {
  byId("connection").textContent = "";
  pause = FIRST_PAUSE_MS;
  hasEnded = false;
  if (isNew && location.hash) byId(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  isNew = false;
}

let isNew = true;
let isKeeping = false;
let hasEnded = false; // the server said good-bye, and all that happened until then is shown
let pause = FIRST_PAUSE_MS;

async function keepUp() {
  if (isKeeping) return;
  isKeeping = true;
  while (!document.hidden) {
    let why = "No connection to the server: this may be out of date.";
    try {
      hasEnded = await follow(location.pathname);
    } catch (error) {
      if (error instanceof Problem) {
        why = `The server cannot show this: ${error.message}.`;
        hasEnded = false;
      }
      if (error.status === 401) {
        signedOut();
        break;
      }
      if (error.status === 404) {
        if (!shown.size) notThere(error.message);
        break;
      }
      if (error.status && !shown.size) byId("waiting")?.replaceChildren(error.message);
    }
    if (document.hidden) break;
    if (hasEnded) why = "The server has ended; this is how all stood. `cao dashboard` starts one.";
    write(byId("connection"), `${why} Trying again …`);
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
  isKeeping = false;
}

function notThere(what) {
  byId("connection").textContent = "";
  main.replaceChildren(byId("nothing-here").content.cloneNode(true));
  write(byId("not-there"), `There is ${what}.`);
  document.title = "Not found · cao";
}

function signedOut(why) {
  shown.clear();
  byId("connection").textContent = "";
  main.replaceChildren(byId("signed-out").content.cloneNode(true));
  if (why) {
    write(byId("sign-in-why"), why);
    byId("sign-in-how").remove();
  }
  document.title = "Not signed in · cao";
}

async function signIn() {
  const code = location.hash.slice(1);
  // It works only once; nobody needs it in the history.
  history.replaceState(null, "", location.pathname);
  if (!code) return localStorage.getItem(KEY) ? location.replace("/dashboard") : signedOut();
  try {
    const { key, port } = await post(SIGN_IN, { code });
    localStorage.setItem(PORT, port);
    localStorage.setItem(KEY, key);
    location.replace("/dashboard");
  } catch (error) {
    signedOut(words(error));
  }
}

// What people do

let sureOf; // what the open dialog asks about

// It closes when what it asks about cannot be asked for any more.
function forgetSure() {
  const { post: path, body } = sureOf ?? {};
  const isThere = [...document.querySelectorAll("[data-confirm]")]
    .some(({ dataset }) => dataset.post === path && dataset.body === body);
  if (byId("sure").open && !isThere) byId("sure").close("");
}

function confirmed(element) {
  const dialog = byId("sure");
  sureOf = element.dataset;
  byId("sure-yes").textContent = element.textContent;
  byId("sure-text").textContent = sureOf.confirm;
  dialog.returnValue = "";
  dialog.showModal();
  byId("sure-no").focus();
  return new Promise((done) => {
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
  });
}

// The fields of a form; `settings.FLOW` is the field FLOW of the object `settings`.
function fieldsOf(form) {
  const body = {};
  for (const [name, value] of new FormData(form)) {
    if (value === "" || typeof value !== "string") continue;
    const [last, ...outer] = name.split(".").reverse();
    const holder = outer.reverse().reduce((one, part) => (one[part] ??= {}), body);
    holder[last] = value;
  }
  return body;
}

// Says at the form what is wrong with it, in the words of its fields.
function sayAt(form, text) {
  const place = form.querySelector("[data-problem]");
  if (!place) return say(text, true);
  const calls = Object.entries(JSON.parse(form.dataset.words || "{}"));
  write(place, calls.reduce((one, [theirs, ours]) => one.replaceAll(theirs, ours), text));
}

function setBusy(element, isBusy) {
  element.ariaBusy = isBusy ? "true" : null;
  const button = element.querySelector("[data-busy]");
  if (!button) return;
  button.disabled = isBusy;
  const { busy } = button.dataset;
  [button.dataset.busy, button.textContent] = [button.textContent, busy];
}

async function act(element) {
  const { post: path, body, confirm, said, then, once } = element.dataset;
  say("");
  if (element.ariaBusy === "true" || (confirm && !(await confirmed(element)))) return;
  element.querySelector("[data-problem]")?.replaceChildren();
  setBusy(element, true);
  try {
    const fields = element.tagName === "FORM" ? fieldsOf(element) : {};
    const answer = await post(path, { ...JSON.parse(body || "{}"), ...fields });
    if (then) return location.assign(then.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(answer[name])));
    const isSure = answer.success !== false;
    say(answer.text ?? (isSure ? said ?? "Done." : "It was typed; nobody knows if the agent has it."));
    if (element.tagName === "FORM") element.reset();
    if (once !== undefined) close(element);
  } catch (error) {
    if (error.status === 401) signedOut();
    sayAt(element, words(error));
  } finally {
    setBusy(element, false);
  }
}

const fetched = new WeakMap(); // what was asked for last, by where it is to be shown

async function load(into, path) {
  fetched.set(into, path);
  let content;
  try {
    content = parsed(await fragment(path));
  } catch (error) {
    content = words(error);
  }
  if (fetched.get(into) !== path) return;
  const focused = [...into.querySelectorAll("button")].indexOf(document.activeElement);
  into.replaceChildren(content);
  if (focused >= 0) into.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
}

function comment(button) {
  const line = button.closest(".diff-line") ?? button.parentElement;
  const open = line.nextElementSibling;
  if (open?.matches("form.comment")) return open.elements.text.focus();
  const [, run, turn] = button.closest("details[data-fragment]").dataset.fragment
    .match(/^\/dashboard\/runs\/([^/?]+)\/turns\/(\d+)/);
  const { path, line: number, side } = button.dataset;
  const code = line.querySelector(".diff-text")?.textContent.slice(1) ?? "";
  const form = byId("comment-form").content.cloneNode(true).firstElementChild;
  form.dataset.post = `/dashboard/runs/${run}/comments`;
  form.dataset.body = JSON.stringify({ turn: Number(turn), path, line: Number(number), side, code });
  line.after(form);
  form.elements.text.focus();
}

function close(form) {
  form.previousElementSibling?.querySelector("[data-comment]")?.focus();
  form.remove();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button");
  if (!button) return;
  if (button.dataset.post) act(button);
  else if (button.dataset.fragment) load(button.closest("[data-into]"), button.dataset.fragment);
  else if (button.dataset.comment !== undefined) comment(button);
  else if (button.dataset.cancel !== undefined) close(button.closest("form"));
  else if (button.id === "sure-yes") byId("sure").close("yes");
  else if (button.id === "sure-no") byId("sure").close("");
});

document.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.target.dataset.post) act(event.target);
});

document.addEventListener("keydown", (event) => {
  const form = event.key === "Escape" && event.target.closest?.("form.comment");
  if (form) close(form);
});

// It does not bubble.
document.addEventListener("toggle", ({ target: details }) => {
  if (!details.open || !details.dataset?.fragment || details.dataset.loaded !== undefined) return;
  details.dataset.loaded = "";
  load(details.querySelector("[data-into]"), details.dataset.fragment);
}, true);

document.addEventListener("visibilitychange", () => {
  if (document.hidden) following?.abort();
  else keepUp();
});

for (const link of document.querySelectorAll("header nav a")) {
  if (link.pathname === location.pathname) link.ariaCurrent = "page";
}
if (location.pathname === SIGN_IN) {
  signIn();
} else {
  // Another tab has signed in.
  addEventListener("storage", (event) => event.key === KEY && event.newValue && keepUp());
  keepUp();
}
