  function fault(field) {
    var said = key(field.value);
    var count = words(field.value).length;
    if (!field.value.trim()) { return "Please write a " + noun + "."; }
    if (!/\p{L}/u.test(said)) { return "Please use words."; }
    if (count > maxWords) { return "Too long: " + count + " words. Please use at most " + maxWords + "."; }
    if (letters(field) > maxLetters) {
      return "Too long: " + letters(field) + " letters. Please use at most " + maxLetters + ".";
    }
    var prompts = field.closest(".q").querySelectorAll(".p");
    for (var i = 0; i < prompts.length; i++) {
      if (key(prompts[i].textContent) === said) { return "This only repeats the text above. Please use your own words."; }
    }
    for (var j = 0; j < fields.length && fields[j] !== field; j++) {
      if (key(fields[j].value) === said) { return "The same as answer " + (j + 1) + ". Every " + noun + " must be different."; }
    }
    return "";
  }

