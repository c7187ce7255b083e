// The checks of a HIT page. No template literals here: the requester site would take them for its variables.
(function () {
  "use strict";
  var root = document.getElementById("hit");
  // The requester site puts its own form around the page.
  var form = root.closest("form");
  var fields = Array.prototype.slice.call(root.querySelectorAll(".q input, .q textarea"));
  var maxWords = Number(root.dataset.words);
  var maxLetters = Number(root.dataset.letters);
  var noun = root.dataset.noun;
  var button = root.querySelector("button");
  var sent = false;

  function byId(id) { return document.getElementById(id); }

  function words(text) {
    return text.normalize("NFKC").replace(/['\u2019]/g, "")
      .replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
      .toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) || [];
  }

  function key(text) { return words(text).join(" "); }

{% include "hit_rewrites.js" if task == "rewrites" else "hit_schemas.js" %}
  function letters(field) { return Array.from(field.value.trim()).length; }

  function show(field, message) {
    var place = byId(field.id + "-e");
    if (place.textContent !== message) { place.textContent = message; }
    if (message) { field.setAttribute("aria-invalid", "true"); } else { field.removeAttribute("aria-invalid"); }
  }

  function count() {
    var left = 0;
    fields.forEach(function (field) {
      var n = words(field.value).length;
      var hint = byId(field.id + "-h");
      hint.textContent = n ? n + " of at most " + maxWords + (maxWords === 1 ? " word" : " words") : "";
      hint.classList.toggle("over", n > maxWords || letters(field) > maxLetters);
      left += n ? 0 : 1;
    });
    var text = left ? left + " of " + fields.length + " left" : "All " + fields.length + " answered";
    if (byId("hit-left").textContent !== text) { byId("hit-left").textContent = text; }
  }

  function checkAll() {
    var wrong = fields.filter(function (field) {
      var message = fault(field);
      show(field, message);
      return message;
    });
    byId("hit-wrong").textContent = wrong.length
      ? (wrong.length === 1 ? "1 answer needs" : wrong.length + " answers need") + " another look." : "";
    return wrong;
  }

  function recheck() {
    // Marks disappear as soon as an answer is right; nothing new is marked while someone is writing.
    var marked = fields.filter(function (field) { return field.hasAttribute("aria-invalid"); });
    marked.forEach(function (field) { show(field, fault(field)); });
    if (marked.every(function (field) { return !field.hasAttribute("aria-invalid"); })) { byId("hit-wrong").textContent = ""; }
  }

  function onInput() { count(); recheck(); }

  function onChange(event) {
    var field = event.target;
    if (fields.indexOf(field) >= 0 && field.value.trim()) { show(field, fault(field)); }
  }

  function onKey(event) {
    var at = fields.indexOf(event.target);
    // Enter goes on to the next answer: sending half a page would be an accident.
    if (event.key !== "Enter" || event.isComposing || at < 0) { return; }
    event.preventDefault();
    (fields[at + 1] || button).focus();
  }

  function onSubmit(event) {
    var wrong = checkAll();
    if (sent || wrong.length) {
      event.preventDefault();
      if (wrong.length) { wrong[0].focus(); }
      return;
    }
    fields.forEach(function (field) { field.value = field.value.replace(/\s+/g, " ").trim(); });
    sent = true;
    button.textContent = "Sending\u2026";
    button.disabled = true;
  }

{% include "hit_open.js" %}
})();
