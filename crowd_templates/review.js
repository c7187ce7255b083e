"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const cards = [...document.querySelectorAll(".card")];
  const groups = [...document.querySelectorAll(".group")];
  const indexOf = new Map(page.items.map(([id], i) => [id, i]));
  const state = page.items.map(() => ({ decision: "", text: "", reason: "" }));
  const reviewer = byId("reviewer");
  let current = -1;
  let unsaved = false; // the browser keeps nothing, and something is not downloaded yet

  /* The browser's storage, which may be switched off. */
  const store = {
    get(key) { try { return localStorage.getItem(key); } catch { return null; } },
    set(key, value) { try { localStorage.setItem(key, value); return true; } catch { return false; } },
  };
  const REVIEWER = "parapet.reviewer";

  function save() {
    const kept = [];
    state.forEach((s, i) => {
      if (s.decision || s.text || s.reason) kept.push([page.items[i][0], s.decision, s.text, s.reason]);
    });
    if (!store.set(page.key, JSON.stringify(kept))) {
      if (!unsaved) say("This browser does not keep your decisions: download them before you close the page.");
      unsaved = true;
    }
  }

  function restore() {
    let kept = null;
    try { kept = JSON.parse(store.get(page.key)); } catch { /* not ours: start afresh */ }
    if (!Array.isArray(kept)) return;
    for (const row of kept) {
      if (!Array.isArray(row) || !row.every((cell) => typeof cell === "string")) continue;
      const [id, decision, text, reason] = row;
      if (indexOf.has(id)) Object.assign(state[indexOf.get(id)], { decision, text, reason });
    }
  }

  /* What is decided, and how it shows. */
  const usable = (text) => /[\p{L}\p{N}]/u.test(text);
  const part = (i, name) => cards[i].querySelector(name);

  function show(i) {
    const s = state[i];
    if (s.decision) cards[i].dataset.decision = s.decision; else delete cards[i].dataset.decision;
    for (const button of cards[i].querySelectorAll("[aria-pressed]")) {
      button.setAttribute("aria-pressed", String(button.dataset.do === s.decision));
    }
    part(i, "[data-do=undo]").hidden = !s.decision;
    part(i, ".reason").value = s.reason;
    if (s.decision === "fix") openFix(i); else closeFix(i);
  }

  function openFix(i) {
    const box = part(i, "textarea");
    if (document.activeElement !== box) box.value = state[i].text || page.items[i][1];
    part(i, ".fix").hidden = false;
    part(i, "[data-do=fix]").setAttribute("aria-expanded", "true");
    return box;
  }

  function closeFix(i) {
    part(i, ".fix").hidden = true;
    part(i, "[data-do=fix]").setAttribute("aria-expanded", "false");
  }

  function decide(i, decision) {
    state[i].decision = decision;
    show(i);
    count();
    save();
  }

  /* A fix counts once there is something in the box that can be used. */
  function typeFix(i) {
    const s = state[i];
    s.text = part(i, "textarea").value;
    s.decision = usable(s.text) ? "fix" : "";
    const button = part(i, "[data-do=fix]");
    for (const other of cards[i].querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", String(s.decision === "fix"));
    if (s.decision) cards[i].dataset.decision = "fix"; else delete cards[i].dataset.decision;
    part(i, "[data-do=undo]").hidden = !s.decision;
    count();
    save();
  }

  function undo(i) {
    Object.assign(state[i], { decision: "", text: "" });
    const held = cards[i].contains(document.activeElement);
    show(i);
    count();
    save();
    if (held) focus(i);
  }

  function count() {
    const done = state.filter((s) => s.decision).length;
    const text = `${done} of ${state.length} decided`;
    byId("meter").value = done;
    if (byId("progress").textContent !== text) byId("progress").textContent = text;
  }

  function say(text) { byId("message").textContent = text; }

  /* Moving about. */
  function mark(i) {
    if (i === current) return;
    if (current >= 0) cards[current].classList.remove("current");
    current = i;
    cards[i].classList.add("current");
  }

  function focus(i) {
    mark(i);
    cards[i].focus({ preventScroll: true });
    cards[i].scrollIntoView({ block: "nearest" });
  }

  function step(by, wanted = () => true) {
    for (let i = current + by; i >= 0 && i < cards.length; i += by) {
      if (!cards[i].hidden && wanted(i)) { focus(i); return true; }
    }
    return false;
  }

  function onward() {
    if (!step(1, (i) => !state[i].decision)) {
      const left = state.filter((s) => !s.decision).length;
      say(left ? `No undecided item below; ${left} left elsewhere.` : `All ${state.length} decided: download ${page.file}.`);
      focus(current);
    }
  }

  function startFix(i) {
    const box = openFix(i);
    box.focus();
    box.select();
  }

  /* Which items are shown. An item that is decided stays in sight until the filters are touched again. */
  const texts = cards.map((card) => {
    const read = (node, what) => [...node.querySelectorAll(what)].map((e) => e.textContent);
    const about = card.closest(".group").querySelector(".about");
    return [about.textContent, ...read(card, ".answer, .typed, .flags, .neighbours, .id")].join("\n").toLowerCase();
  });
  const flagsOf = cards.map((card) => new Set([...card.querySelectorAll("[data-flag]")].map((e) => e.dataset.flag)));

  function filter() {
    const [status, flag, service] = ["by-status", "by-flag", "by-service"].map((id) => byId(id).value);
    const text = byId("by-text").value.trim().toLowerCase();
    let shown = 0;
    cards.forEach((card, i) => {
      const d = state[i].decision;
      const wanted = (!status || d === status || (status === "undecided" && !d) || (status === "decided" && d))
        && (!flag || flagsOf[i].has(flag))
        && (!service || card.parentElement.dataset.service === service)
        && texts[i].includes(text);
      card.hidden = !wanted;
      shown += wanted ? 1 : 0;
    });
    for (const group of groups) group.hidden = !group.querySelector(".card:not([hidden])");
    byId("none").hidden = shown > 0;
    say(shown < cards.length ? `${shown} of ${cards.length} shown` : "");
    if (current >= 0 && cards[current].hidden) {
      cards[current].classList.remove("current");
      current = -1;
    }
  }

  /* The file. schemas/decisions.py writes and reads the same. */
  const GUARDED = "[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]";
  const TO_GUARD = new RegExp("^'*" + GUARDED);
  const GUARD = new RegExp("^'+" + GUARDED);
  const COLUMNS = ["response_id", "decision", "text", "reason", "reviewer"];
  const cell = (text) => `"${(TO_GUARD.test(text) ? "'" + text : text).replaceAll('"', '""')}"`;
  const bare = (text) => (GUARD.test(text) ? text.slice(1) : text);

  function download() {
    const rows = [COLUMNS];
    state.forEach((s, i) => {
      const text = s.decision === "fix" ? s.text : "";
      if (s.decision) rows.push([page.items[i][0], s.decision, text, s.reason, reviewer.value.trim()]);
    });
    if (rows.length === 1) { say("Nothing is decided yet."); return; }
    const csv = rows.map((row) => row.map(cell).join(",") + "\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv;charset=utf-8" }));
    link.download = page.file;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    unsaved = false;
    const name = reviewer.value.trim() ? "" : " It carries no reviewer: write your name above and download it again if it matters.";
    say(`${page.file} has ${rows.length - 1} of ${state.length} decisions.${name}`);
  }

  function parse(text) {
    const head = text.split(/[\r\n]/, 1)[0];
    const found = (d) => head.split(d).filter((c) => COLUMNS.includes(c.replace(/["'\s]/g, "").toLowerCase())).length;
    const delimiter = [",", ";", "\t"].reduce((best, d) => (found(d) > found(best) ? d : best));
    const rows = [];
    let row = [], field = "", quoted = false;
    const endRow = () => { row.push(field); rows.push(row); row = []; field = ""; };
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (quoted) {
        if (c !== '"') field += c;
        else if (text[i + 1] === '"') { field += c; i++; }
        else quoted = false;
      } else if (c === '"' && !field) quoted = true;
      else if (c === delimiter) { row.push(field); field = ""; }
      else if (c === "\n" || c === "\r") { if (c === "\r" && text[i + 1] === "\n") i++; endRow(); }
      else field += c;
    }
    if (field || row.length) endRow();
    return rows;
  }

  function decode(bytes) {
    const utf16 = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : "";
    return new TextDecoder(utf16 || "utf-8", { fatal: true }).decode(bytes);
  }

  async function load(file) {
    let rows;
    try { rows = parse(decode(new Uint8Array(await file.arrayBuffer()))); } catch {
      say(`${file.name} cannot be read: it is not UTF-8.`);
      return;
    }
    const at = COLUMNS.map((name) => (rows[0] || []).map((c) => c.trim().toLowerCase()).indexOf(name));
    if (at[0] < 0 || at[1] < 0) { say(`${file.name} has no columns response_id and decision.`); return; }
    let loaded = 0, unknown = 0, bad = 0;
    for (const row of rows.slice(1)) {
      const get = (k) => row[at[k]] || "";
      const decision = get(1).trim().toLowerCase();
      if (!decision) continue;
      const i = indexOf.get(bare(get(0).trim()));
      const text = bare(get(2));
      if (i === undefined) { unknown++; continue; }
      if (!["accept", "reject", "fix"].includes(decision) || (decision === "fix" && !usable(text)) || text.length > page.maxCell) { bad++; continue; }
      Object.assign(state[i], { decision, text: decision === "fix" ? text : "", reason: bare(get(3)) });
      if (!reviewer.value && get(4)) { reviewer.value = bare(get(4)); store.set(REVIEWER, reviewer.value); }
      loaded++;
    }
    state.forEach((_, i) => show(i));
    count();
    save();
    filter();
    say(`Decisions taken from ${file.name}: ${loaded}`
      + (unknown ? `; about answers that are not on this page: ${unknown}` : "")
      + (bad ? `; rows that cannot be used: ${bad}` : "") + ".");
  }

  /* Events. */
  cards.forEach((card, i) => {
    card.addEventListener("focusin", () => mark(i));
    card.addEventListener("mousedown", () => mark(i));
    card.addEventListener("click", (event) => {
      const what = event.target.closest("[data-do]")?.dataset.do;
      if (what === "fix") startFix(i);
      else if (what === "undo") undo(i);
      else if (what) decide(i, what);
    });
    card.querySelector(".reason").addEventListener("input", (event) => { state[i].reason = event.target.value; save(); });
    const box = card.querySelector("textarea");
    box.addEventListener("input", () => typeFix(i));
    box.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        typeFix(i);
        if (state[i].decision) onward(); else say("Write the text to use instead first.");
      } else if (event.key === "Escape") {
        if (state[i].decision !== "fix") closeFix(i);
        focus(i);
      }
    });
    card.querySelector(".reason").addEventListener("keydown", (event) => {
      if (event.key === "Escape" || (event.key === "Enter" && !event.isComposing)) focus(i);
    });
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !byId("shortcuts").checked) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    const key = event.key.toLowerCase();
    if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (current < 0 && "arfu".includes(key)) step(1);
    else if (key === "a") { decide(current, "accept"); onward(); }
    else if (key === "r") { decide(current, "reject"); onward(); }
    else if (key === "f") startFix(current);
    else if (key === "u") undo(current);
    else return;
    event.preventDefault();
  });

  byId("filters").addEventListener("input", filter);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("download").addEventListener("click", download);
  byId("load").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) load(file);
    event.target.value = "";
  });
  reviewer.addEventListener("input", () => store.set(REVIEWER, reviewer.value.trim()));
  addEventListener("storage", (event) => {
    if (event.key !== page.key) return; // another tab with the same page
    state.forEach((s) => Object.assign(s, { decision: "", text: "", reason: "" }));
    start();
  });
  addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });

  function start() {
    restore();
    state.forEach((_, i) => show(i));
    count();
  }
  reviewer.value = store.get(REVIEWER) || "";
  start();
})();
