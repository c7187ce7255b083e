// The checks of a HIT page whose answers are choices. No template literals here, as in hit.js.
(function () {
  "use strict";
  var root = document.getElementById("hit");
  // The requester site puts its own form around the page.
  var form = root.closest("form");
  var questions = Array.prototype.slice.call(root.querySelectorAll(".choice"));
  var button = root.querySelector("button");
  var sent = false;

  function byId(id) { return document.getElementById(id); }

  function unanswered() {
    return questions.filter(function (question) { return !question.querySelector(":checked"); });
  }

  function mark(question, message) {
    var place = byId(question.id + "-e");
    if (place.textContent !== message) { place.textContent = message; }
    if (message) { question.setAttribute("aria-invalid", "true"); } else { question.removeAttribute("aria-invalid"); }
  }

  function count() {
    var left = unanswered().length;
    var text = left ? left + " of " + questions.length + " left" : "All " + questions.length + " answered";
    if (byId("hit-left").textContent !== text) { byId("hit-left").textContent = text; }
  }

  function onChange(event) {
    var question = event.target.closest(".choice");
    if (question) { mark(question, ""); }
    if (!root.querySelector("[aria-invalid]")) { byId("hit-wrong").textContent = ""; }
    count();
  }

  var onInput = null;

  function onKey(event) {
    // Enter would send the page from any of its answers.
    if (event.key === "Enter" && event.target.type === "radio") { event.preventDefault(); }
  }

  function onSubmit(event) {
    var missing = unanswered();
    questions.forEach(function (question) {
      mark(question, missing.indexOf(question) < 0 ? "" : "Please choose an answer.");
    });
    byId("hit-wrong").textContent = missing.length
      ? (missing.length === 1 ? "1 question needs an answer." : missing.length + " questions need an answer.") : "";
    if (sent || missing.length) {
      event.preventDefault();
      if (missing.length) { missing[0].querySelector("input").focus(); }
      return;
    }
    sent = true;
    button.textContent = "Sending\u2026";
    button.disabled = true;
  }

{% include "hit_open.js" %}
})();
