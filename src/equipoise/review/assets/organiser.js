"use strict";
// The organiser's page: agreement, gold, speed, and who still has what to do.
(() => {
  const byId = id => document.getElementById(id);
  const cell = (tag, text, number) => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (number) element.className = "number";
    if (tag === "th") element.scope = "col";
    return element;
  };
  const table = (caption, heads, rows) => {
    const whole = document.createElement("table");
    whole.append(Object.assign(document.createElement("caption"), { textContent: caption }));
    const line = (tag, cells, numbers) => {
      const row = document.createElement("tr");
      row.append(...cells.map((text, i) => cell(tag, text, numbers[i])));
      return row;
    };
    const numbers = heads.map(head => head[1]);
    const top = document.createElement("thead"), body = document.createElement("tbody");
    top.append(line("th", heads.map(head => head[0]), numbers));
    body.append(...rows.map(row => line("td", row, numbers)));
    whole.append(top, body);
    const frame = document.createElement("div");
    frame.className = "scroll";
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", caption);
    frame.append(whole);
    return frame;
  };
  const number = (value, digits = 2) => value === null || value === undefined ? "–" : value.toFixed(digits);
  const span = one => one && one.ci_low !== null ? `${number(one.ci_low)} to ${number(one.ci_high)}` : "–";
  const heading = text => Object.assign(document.createElement("h2"), { textContent: text });
  const note = text => Object.assign(document.createElement("p"), { textContent: text });

  const draw = told => {
    document.title = `${told.title}: organiser`;
    byId("title").textContent = told.title;
    const parts = [note(`${told.finished} of ${told.items} items are finished.`), heading("People")];
    parts.push(told.people.length ? table(
      "Hidden gold: the share of answers that are right, with its 95% interval, against guessing; “unsure” counts as neither.",
      [["annotator"], ["done", 1], ["skipped", 1], ["left", 1], ["seconds per item", 1], ["gold right", 1], ["95%", 1], ["guessing", 1], ["n", 1], ["unsure", 1]],
      told.people.map(one => [one.name + (one.revoked ? " (no link)" : ""), `${one.done}`, `${one.skipped}`, `${one.left}`, number(one.seconds, 1),
        number(one.gold && one.gold.value), span(one.gold), number(one.gold && one.gold.null_mean), `${one.gold ? one.gold.n : 0}`, `${one.unsure}`]))
      : note("Nobody has a link yet."));
    parts.push(heading("Agreement"), table(
      "Krippendorff’s alpha: 1 is agreement, 0 is what chance gives. “Same” is the share of pairs of answers that are the same.",
      [["question"], ["answers", 1], ["same", 1], ["alpha", 1], ["95%", 1], ["n", 1], ["note"]],
      told.questions.map(one => [one.text, `${Object.values(one.counts).reduce((a, b) => a + b, 0)}`, number(one.same),
        number(one.alpha && one.alpha.value), span(one.alpha), `${one.alpha ? one.alpha.n : 0}`, one.note])));
    const pairs = told.questions.flatMap(one => Object.entries(one.kappas).map(([who, kappa]) => [one.text, who, number(kappa.value), span(kappa), `${kappa.n}`]));
    if (pairs.length) parts.push(heading("Pairs of people"), table("Cohen’s kappa of each two people with items in common.",
      [["question"], ["people"], ["kappa", 1], ["95%", 1], ["n", 1]], pairs));
    const answers = told.questions.flatMap(one => Object.entries(one.counts).map(([answer, n]) => [one.text, answer, `${n}`]));
    if (answers.length) parts.push(heading("Answers"), table("How often each answer was given.", [["question"], ["answer"], ["n", 1]], answers));
    if (told.problems.length) parts.push(heading("Pictures that cannot be shown"), table("Annotators are told so, and can skip.", [["picture and reason"]], told.problems.map(one => [one])));
    byId("stage").replaceChildren(...parts);
  };
  const read = async () => {
    const token = decodeURIComponent(location.hash.slice(1));
    let answer;
    try {
      answer = await fetch("/api/organiser", { headers: { Authorization: `Bearer ${token}` }, cache: "no-store", credentials: "omit" });
    } catch {
      byId("notice").textContent = "The server does not answer.";
      return;
    }
    const told = await answer.json();
    if (!answer.ok) { byId("stage").replaceChildren(note("This link does not open the organiser’s page; the terminal shows it when the server starts.")); return; }
    byId("notice").textContent = `Read at ${new Date().toLocaleTimeString()}.`;
    draw(told);
  };
  byId("again").addEventListener("click", read);
  read();
})();
