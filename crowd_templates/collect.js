/* What a served form does besides its own checks: keeps a draft, counts how it is typed, and sends until it is saved. */
"use strict";
(() => {
  const form = document.getElementById("mturk_form");
  const fields = [...form.querySelectorAll(".q [name], .choice [name]")];
  const names = [...new Set(fields.map((field) => field.name))];
  const message = document.getElementById("hit-wrong");
  const KEY = "parapet.collect." + new URL(location.href).searchParams.get("assignmentId");
  const RETRIES = [1000, 2000, 4000, 8000]; // milliseconds
  const zeros = () => Object.fromEntries(names.map((name) => [name, 0]));
  const telemetry = { Keystrokes: zeros(), Pastes: zeros(), Seconds: zeros() };

  /* The browser's storage, which may be switched off. */
  const store = {
    get() { try { return JSON.parse(localStorage.getItem(KEY)); } catch { return null; } },
    set(value) { try { localStorage.setItem(KEY, JSON.stringify(value)); } catch { /* then there is no draft */ } },
    remove() { try { localStorage.removeItem(KEY); } catch { /* nothing is there */ } },
  };
  const isChoice = (field) => field.type === "radio";

  function values() {
    const texts = {};
    for (const field of fields) if (!isChoice(field) || field.checked) texts[field.name] = field.value;
    return texts;
  }

  let over = false; // leaving the page must not bring the draft back

  function save() {
    count();
    if (!over) store.set({ texts: values(), telemetry });
  }

  function forget() {
    over = true;
    store.remove();
  }

  function restore() {
    const draft = store.get();
    if (!draft || typeof draft.texts !== "object") return;
    for (const kind of Object.keys(telemetry)) Object.assign(telemetry[kind], draft.telemetry && draft.telemetry[kind]);
    for (const field of fields) {
      const text = draft.texts[field.name];
      if (typeof text !== "string") continue;
      if (isChoice(field)) field.checked = field.value === text; else field.value = text;
    }
    fields[0].dispatchEvent(new Event(isChoice(fields[0]) ? "change" : "input", { bubbles: true }));
  }

  /* Telemetry. */
  let current = null, since = 0;

  /* Counts the time since the last call for the current field, so that a draft has it if the page is left. */
  function count() {
    const now = performance.now();
    if (current) telemetry.Seconds[current] += (now - since) / 1000;
    since = now;
  }

  function stop() {
    count();
    current = null;
  }

  function start(field) {
    stop();
    if (names.includes(field.name)) current = field.name;
  }

  form.addEventListener("focusin", (event) => start(event.target));
  form.addEventListener("focusout", () => { stop(); save(); });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop(); else if (document.activeElement) start(document.activeElement);
    save();
  });
  form.addEventListener("input", (event) => {
    const { name } = event.target;
    if (!names.includes(name) || !event.isTrusted) return;
    if (current !== name) start(event.target); // a window that is not in front has no focus events
    const kind = event.inputType || "";
    if (/^insertFrom(Paste|Drop|Yank)/.test(kind)) telemetry.Pastes[name] += 1;
    else if (/^(insert|delete)/.test(kind)) telemetry.Keystrokes[name] += 1;
    save();
  });
  form.addEventListener("change", save);

  /* Sending. */
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

  function failed(text) {
    message.textContent = text;
    window.onpageshow(); // the form's own way to be open again
  }

  async function post(body) {
    for (let i = 0; ; i++) {
      let response = null;
      try { response = await fetch(form.action, { method: "POST", body, redirect: "error" }); } catch { /* no network */ }
      const again = !response || [429, 500, 502, 503, 504].includes(response.status);
      if (!again || i === RETRIES.length) return response;
      message.textContent = "The server does not answer. Trying again\u2026";
      await pause(RETRIES[i]);
    }
  }

  async function send() {
    stop();
    save();
    const body = new URLSearchParams(new FormData(form));
    body.set("telemetry", JSON.stringify(telemetry));
    const response = await post(body);
    let answer = {};
    try { answer = await response.json(); } catch { /* not from our server, or none at all */ }
    if (response && response.ok && answer.next) {
      forget();
      location.assign(answer.next);
    } else {
      failed(answer.message || "Not saved: the server does not answer. Your answers are kept in this browser. Try again later.");
    }
  }

  form.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return; // the form has found something wrong
    event.preventDefault();
    message.textContent = "";
    send();
  });
  document.querySelector(".collect-return").addEventListener("submit", forget);

  restore();
})();
