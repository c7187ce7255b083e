  // Sentences have no names to split at capitals: O'Neill is one word.
  words = function (text) {
    return text.normalize("NFKC").replace(/['\u2019]/g, "").toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) || [];
  };

  var said = byId("hit-said").textContent.trim();
  var curly = /[\u2018\u2019\u201c\u201d]/.test(said);
  var values = Array.prototype.map.call(root.querySelectorAll("#hit-keep q"), function (q) { return q.textContent; });
  var past = byId("hit-past");
  if (past) { past.scrollTop = past.scrollHeight; }
  maxWords += words(said).length;
  maxLetters += Array.from(said).length;

  // Phones make quotes curly; a value with straight ones would then not be kept letter for letter.
  function straight(text) {
    return curly ? text : text.replace(/[\u2018\u2019]/g, "'").replace(/[\u201c\u201d]/g, '"');
  }

  root.addEventListener("change", function (event) {
    if (fields.indexOf(event.target) >= 0) { event.target.value = straight(event.target.value); }
  });

  function inside(left, right) {
    return /[\p{L}\p{M}\p{N}]$/u.test(left) && /^[\p{L}\p{M}\p{N}]/u.test(right)
      || /\p{N}$/u.test(left) && /^[:.,\/]\p{N}/u.test(right) || /\p{N}[:.,\/]$/u.test(left) && /^\p{N}/u.test(right);
  }

  function hasWord(text, value) {
    for (var at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1)) {
      var end = at + value.length;
      if (!inside(text.slice(0, at), text.slice(at)) && !inside(text.slice(0, end), text.slice(end))) { return true; }
    }
    return false;
  }

  function keeps(text, value) { return hasWord(said, value) ? hasWord(text, value) : text.indexOf(value) >= 0; }

  // How many letters were put in, left out or replaced, without regard to case.
  function edits(one, other) {
    var a = Array.from(one.toLowerCase()), b = Array.from(other.toLowerCase());
    var row = b.map(function (_, j) { return j + 1; });
    for (var i = 0; i < a.length; i++) {
      var corner = i, left = i + 1;
      for (var j = 0; j < b.length; j++) {
        var above = row[j];
        left = Math.min(left + 1, above + 1, corner + (a[i] === b[j] ? 0 : 1));
        corner = above;
        row[j] = left;
      }
    }
    return b.length ? row[b.length - 1] : a.length;
  }

  function counted(n, word) { return n + " " + word + (n === 1 ? "" : "s"); }

  function misshapen(task, text) {
    var n = words(text).length, had = words(said).length;
    // Of up to three words none has to go; and the values have to stay.
    var most = Math.max(had > 3 ? had - 1 : had, words(values.join(" ")).length);
    var bound = Math.max(2, Math.floor(0.3 * Array.from(said).length));
    if (task !== "typos" && key(text) === key(said)) {
      return "This only repeats the sentence above. Please use your own words.";
    }
    if (task === "verbose" && n <= had) {
      return "Not longer: " + counted(n, "word") + ", and the sentence above has " + had + ". Please write more.";
    }
    if (task === "simplified" && n > most) {
      return "Not shorter: " + counted(n, "word") + ". Please write at most " + most + ".";
    }
    if (task === "typos" && key(text) === key(said)) {
      return "No letter is changed. Please make at least one mistake.";
    }
    if (task === "typos" && edits(text, said) > bound) {
      return "Too many changes: mistype at most " + bound + " letters of the sentence above.";
    }
    return "";
  }

  function fault(field) {
    var text = straight(field.value).replace(/\s+/g, " ").trim();
    var n = words(text).length;
    if (!text) { return "Please write a sentence."; }
    if (!n) { return "Please use words."; }
    if (n > maxWords) { return "Too long: " + n + " words. Please use at most " + maxWords + "."; }
    if (letters(field) > maxLetters) {
      return "Too long: " + letters(field) + " letters. Please use at most " + maxLetters + ".";
    }
    var missing = values.filter(function (value) { return !keeps(text, value); });
    if (missing.length) {
      return "Keep \"" + missing.join("\" and \"") + "\" as " + (missing.length === 1 ? "it is." : "they are.");
    }
    for (var j = 0; j < fields.length && fields[j] !== field; j++) {
      if (key(straight(fields[j].value)) === key(text)) {
        return "The same as answer " + (j + 1) + ". Every answer must be different.";
      }
    }
    return misshapen(field.name, text);
  }

