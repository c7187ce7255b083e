  function open(assignment) {
    var hidden = form.querySelector("[name=assignmentId]");
    if (!hidden) {
      hidden = document.createElement("input");
      hidden.hidden = true;
      hidden.name = "assignmentId";
      form.appendChild(hidden);
    }
    hidden.value = assignment;
    hidden.disabled = false;
    form.noValidate = true;
    Array.prototype.forEach.call(root.querySelectorAll("fieldset"), function (set) { set.disabled = false; });
    button.disabled = false;
    root.oninput = onInput;
    root.onchange = onChange;
    root.onkeydown = onKey;
    form.onsubmit = onSubmit;
    // The worker came back after submitting: the answers can be sent again.
    window.onpageshow = function () {
      sent = false;
      button.disabled = false;
      button.textContent = "Submit";
      count();
    };
  }

  var assignment = new URL(document.URL).searchParams.get("assignmentId");
  if (form && assignment && assignment !== "ASSIGNMENT_ID_NOT_AVAILABLE") { open(assignment); }
  else { byId("hit-preview").hidden = false; }
  count();
