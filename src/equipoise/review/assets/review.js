"use strict";
// The page of an annotator. Nothing is built from markup: every text of the table goes through textContent.
(() => {
  const MONK = ["#f6ede4", "#f3e7db", "#f7ead0", "#eadaba", "#d7bd96", "#a07e56", "#825c43", "#604134", "#3a312a", "#292420"];
  const byId = id => document.getElementById(id);
  const stage = byId("stage"), notice = byId("notice"), keys = byId("keys");
  const made = (tag, more = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(more)) {
      if (name === "text") element.textContent = value;
      else if (name === "on") Object.entries(value).forEach(([event, what]) => element.addEventListener(event, what));
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter(Boolean));
    return element;
  };

  let source;                    // where items come from and answers go: the server, or a page of its own
  let sheet, item = null, asks = [], said = {}, current = 0, busy = false;
  let state = "loading";         // welcome, looking, paused, help, done, stopped
  let shownAt = 0, spent = 0, addresses = [];

  // ---------------------------------------------------------------- the server
  class Refused extends Error {
    constructor(status, message) { super(message); this.status = status; }
  }
  const server = token => {
    const ask = async (path, body) => {
      const headers = { Authorization: `Bearer ${token}` };
      if (body !== undefined) headers["Content-Type"] = "application/json";
      let answer;
      for (let tries = 0; ; tries += 1) {
        try {
          answer = await fetch(path, {
            method: body === undefined ? "GET" : "POST", headers, body: body === undefined ? undefined : JSON.stringify(body),
            cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
          });
        } catch {
          if (tries >= 3) throw new Refused(0, "The organiser’s machine does not answer. Your last confirmed answer is safe; try again.");
          await new Promise(done => setTimeout(done, 500 * 2 ** tries));
          continue;
        }
        if (answer.status !== 429 || tries >= 3) break;
        await new Promise(done => setTimeout(done, 1000));
      }
      if (!answer.ok) {
        const told = await answer.json().catch(() => ({}));
        const detail = typeof told.detail === "string" ? told.detail : "this cannot be sent";
        throw new Refused(answer.status, detail);
      }
      return answer;
    };
    const json = async (path, body) => (await ask(path, body)).json();
    return {
      task: () => json("/api/task"),
      next: () => json("/api/next"),
      answer: told => json("/api/answer", told),
      undo: () => json("/api/undo", {}),
      picture: async number => {
        const url = URL.createObjectURL(await (await ask(`/api/pictures/${number}`)).blob());
        addresses.push(url);
        return url;
      },
    };
  };

  // ---------------------------------------------------------------- what is shown
  const say = text => { notice.textContent = text; };
  const clear = () => {
    addresses.forEach(URL.revokeObjectURL);
    addresses = [];
    stage.replaceChildren();
  };
  const showProgress = told => {
    byId("bar").hidden = false;
    byId("progress").max = Math.max(1, told.total);
    byId("progress").value = told.done;
    byId("count").textContent = `${told.done} of ${told.total}`;
  };
  const card = (title, ...children) => {
    clear();
    keys.hidden = true;
    const heading = made("h2", { text: title, tabindex: "-1" });
    stage.append(made("div", { class: "card" }, heading, ...children));
    heading.focus();
  };
  const button = (text, key, what, more = {}) =>
    made("button", { type: "button", on: { click: what }, ...more }, key ? made("kbd", { text: key, "aria-hidden": "true" }) : null, text);

  const welcome = told => {
    state = "welcome";
    const parts = [];
    if (sheet.warning) parts.push(made("p", { class: "warning" }, made("strong", { text: "Before you begin: " }), sheet.warning));
    if (sheet.instructions) parts.push(made("p", { text: sheet.instructions }));
    parts.push(made("p", { text: "You may skip anything without giving a reason, pause, and stop whenever you like. Every answer is kept at once: come back with the same link and go on where you were." }));
    parts.push(helpList());
    card(told.done ? `Welcome back, ${told.name}` : `Welcome, ${told.name}`, ...parts,
      made("p", {}, button(told.done ? "Go on" : "Begin", "Enter", begin, { class: "main", id: "begin" })));
  };
  const helpList = () => made("ul", {},
    ...["1 to 9 (and 0 for the tenth): choose an answer", "Enter: save and go on", "Arrow up and down: the question before or after",
      "U: take the last answer back", "S: skip", "P: pause", "N: write a note (Escape leaves it)", "R: show blurred pictures", "?: this help"]
      .map(text => made("li", { text })));
  const begin = guarded(async () => show(await source.next()));

  function guarded(work) {
    return async (...given) => {
      if (busy) return;
      busy = true;
      try {
        await work(...given);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error.status === 401) stopped(error.message);
        else say(error.message);
      } finally {
        busy = false;
      }
    };
  }
  const stopped = why => {
    state = "stopped";
    byId("bar").hidden = true;
    card("This link does not open anything", made("p", { text: `${why[0].toUpperCase()}${why.slice(1)}. Ask the organiser for a new one.` }));
  };
  const pause = () => {
    spent += performance.now() - shownAt;
    state = "paused";
    card("Paused", made("p", { text: "Nothing is shown while you pause, and the time does not count." }),
      made("p", {}, button("Go on", "Enter", resume, { class: "main" })));
  };
  const help = () => {
    spent += performance.now() - shownAt;
    state = "help";
    card("Help", sheet.instructions ? made("p", { text: sheet.instructions }) : null, helpList(),
      made("p", {}, button("Go on", "Enter", resume, { class: "main" })));
  };
  const resume = () => { draw(); };
  const finish = told => {
    state = "done";
    showProgress(told);
    card("All done. Thank you!", made("p", { text: "Every answer is kept. You can close this page." }),
      told.done ? made("p", {}, button("Undo the last answer", "U", undo)) : null, source.finished ? source.finished() : null);
  };

  const asksOf = shown => {
    const looked = shown.pictures.filter(one => !one.source);
    return sheet.questions.flatMap(question => question.each
      ? looked.map((one, place) => ({ question, key: `${question.name}@${one.id}`, about: looked.length > 1 ? `picture ${place + 1}` : "" }))
      : [{ question, key: question.name, about: "" }]);
  };
  const ordered = asked => {
    const texts = item.texts.map(one => one.name);
    if (!texts.length) return asked.choices.map(choice => [choice, choice]);
    const words = ["first reply", "second reply"];
    const compared = texts.filter(name => asked.choices.includes(name)).map((name, place) => [name, words[place]]);
    return [...compared, ...asked.choices.filter(choice => !texts.includes(choice)).map(choice => [choice, choice])];
  };
  const show = told => {
    showProgress(told);
    item = told.next;
    if (!item) { finish(told); return; }
    said = { ...(told.said || {}) };
    spent = 0;
    asks = asksOf(item);
    current = Math.max(0, asks.findIndex(ask => said[ask.key] === undefined && ask.question.kind !== "note"));
    draw();
  };
  const draw = () => {
    state = "looking";
    clear();
    keys.hidden = false;
    say("");
    const told = item.told.length ? made("dl", { class: "told" }, ...item.told.flatMap(one => [made("dt", { text: one.name }), made("dd", { text: one.text })])) : null;
    const looked = item.pictures.filter(one => !one.source);
    const pictures = made("div", { class: item.pictures.length === 1 ? "pictures one" : "pictures" }, ...item.pictures.map(one => {
      const place = looked.indexOf(one) + 1;
      const name = one.source ? "source" : looked.length > 1 || item.pictures.length > 1 ? `picture ${place}` : "the picture";
      return figure(one, name, item.pictures.length > 1);
    }));
    const replies = item.texts.length ? made("div", { class: "replies" }, ...item.texts.map((one, place) =>
      made("div", {}, made("h2", { text: place ? "Second reply" : "First reply" }), made("blockquote", { text: one.text })))) : null;
    const form = made("div", { id: "form" }, ...asks.map(fieldset));
    byId("save").hidden = single();
    stage.append(made("div", { class: "look" }, made("div", {}, made("h2", { text: "Look", class: "visually" }), told, pictures, replies), form));
    mark(false);
    byId("main").focus({ preventScroll: true });
    window.scrollTo(0, 0);
    shownAt = performance.now();
  };
  const figure = (one, name, captioned) => {
    const frame = made("div", { class: "frame" });
    const caption = [captioned ? name : "", one.label || ""].filter(Boolean).join(": ");
    const whole = made("figure", { class: one.source ? "source" : null }, frame, caption ? made("figcaption", { text: caption }) : null);
    if (one.broken) {
      frame.append(made("p", { class: "broken", text: "This picture cannot be shown. Skip it if you cannot answer." }));
      return whole;
    }
    // the size is told beforehand: nothing moves under a finger when the picture comes
    const image = made("img", { alt: one.flagged ? `${name}, blurred` : name, width: String(one.size[0]), height: String(one.size[1]) });
    if (one.size[0] < 200) image.classList.add("small");
    frame.append(image);
    if (one.flagged && !one.open) {
      frame.classList.add("hidden");
      const open = button("Show the picture", "R", () => {
        one.open = true;
        frame.classList.remove("hidden");
        image.alt = name;
        open.remove();
        byId("main").focus();
      }, { class: "reveal", "aria-label": `Show ${name}; it may be distressing` });
      frame.append(open);
    }
    source.picture(one.id).then(url => { image.src = url; }, () => {
      image.remove();
      frame.append(made("p", { class: "broken", text: "This picture cannot be shown. Skip it if you cannot answer." }));
    });
    return whole;
  };
  const fieldset = (ask, place) => {
    const { question } = ask;
    const name = ask.about ? `${question.text} (${ask.about})` : question.text;
    const legend = made("legend", { text: question.optional && question.kind !== "note" ? `${name} (if any)` : name, id: `ask-${place}` });
    if (question.kind === "note") {
      const text = made("textarea", { id: `note-${place}`, maxlength: "2000", "aria-labelledby": `ask-${place}`, on: { input: () => { said[ask.key] = text.value; } } });
      text.value = said[ask.key] || "";
      return made("fieldset", { "data-place": String(place) }, legend, text);
    }
    const choices = made("div", { class: "choices" }, ...ordered(question).map(([choice, label], number) => {
      const key = number < 9 ? String(number + 1) : number === 9 ? "0" : "";
      const swatch = question.kind === "swatches" && choice !== question.unsure;
      const one = made("button", {
        type: "button", "data-choice": choice, "aria-pressed": "false", class: swatch ? "swatch" : null,
        "aria-label": swatch ? `tone ${choice} of 10` : null, on: { click: () => choose(place, choice) },
      }, swatch ? made("i", { "aria-hidden": "true" }) : key ? made("kbd", { text: key, "aria-hidden": "true" }) : null,
      swatch ? made("span", { text: choice }) : label, question.hints[choice] ? made("small", { text: question.hints[choice] }) : null);
      if (swatch) one.firstChild.style.backgroundColor = MONK[Number(choice) - 1];
      return one;
    }));
    return made("fieldset", { "data-place": String(place) }, legend, choices);
  };
  const mark = moved => {
    for (const set of document.querySelectorAll("#form fieldset")) {
      const place = Number(set.dataset.place), value = said[asks[place].key];
      set.classList.toggle("current", place === current && asks.length > 1);
      for (const one of set.querySelectorAll("[data-choice]")) {
        const chosen = Array.isArray(value) ? value.includes(one.dataset.choice) : value === one.dataset.choice;
        one.setAttribute("aria-pressed", String(chosen));
      }
      if (moved && place === current) set.scrollIntoView({ block: "nearest" });
    }
  };

  // ---------------------------------------------------------------- answering
  const single = () => asks.filter(ask => ask.question.kind !== "note").length === 1 && asks[0].question.kind !== "several"
    && asks[0].question.kind !== "note";
  const choose = (place, choice) => {
    const { question, key } = asks[place];
    if (question.kind === "several") {
      const before = said[key] || [];
      said[key] = before.includes(choice) ? before.filter(one => one !== choice) : [...before, choice];
      current = place;
    } else {
      said[key] = choice;
      const open = asks.findIndex((ask, i) => i > place && ask.question.kind !== "note");
      current = open < 0 ? place : open;
    }
    mark(true);
    if (single()) save();
  };
  const seconds = () => Math.round((spent + performance.now() - shownAt) / 10) / 100;
  const save = guarded(async () => {
    const missing = asks.findIndex(ask => !ask.question.optional && said[ask.key] === undefined);
    if (missing >= 0) {
      current = missing;
      mark(true);
      const about = asks[missing].about;
      say(`Not answered yet: ${asks[missing].question.text}${about ? ` (${about})` : ""}`);
      return;
    }
    show(await source.answer({ item: item.item, answers: said, seconds: seconds() }));
  });
  const skip = guarded(async () => show(await source.answer({ item: item.item, answers: {}, skip: true, seconds: seconds() })));
  const undo = guarded(async () => {
    show(await source.undo());
    say("Taken back. Answer again.");
  });

  const writes = element => element instanceof HTMLTextAreaElement || element instanceof HTMLInputElement;
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const { target, key } = event;
    if (writes(target)) {
      if (key === "Escape") { target.blur(); byId("main").focus(); }
      return;
    }
    if (target instanceof HTMLButtonElement && (key === "Enter" || key === " ")) return;  // the button's own
    if (event.repeat) return;
    const act = what => { event.preventDefault(); what(); };
    if (state === "welcome" && key === "Enter") return act(begin);
    if ((state === "paused" || state === "help") && ["Enter", "p", "P", "?", "Escape"].includes(key)) return act(resume);
    if (state === "done" && (key === "u" || key === "U")) return act(undo);
    if (state !== "looking") return;
    if (/^[0-9]$/.test(key) && asks[current].question.kind !== "note") {
      const choices = ordered(asks[current].question), choice = choices[key === "0" ? 9 : Number(key) - 1];
      if (choice) act(() => choose(current, choice[0]));
      return;
    }
    const move = step => { current = Math.min(asks.length - 1, Math.max(0, current + step)); mark(true); };
    const note = document.querySelector("#form textarea");
    const what = {
      Enter: save, u: undo, s: skip, p: pause, "?": help, ArrowDown: () => move(1), ArrowUp: () => move(-1),
      n: () => note && note.focus(), r: () => document.querySelectorAll(".reveal").forEach(one => one.click()),
    }[key.length === 1 ? key.toLowerCase() : key];
    if (what) act(what);
  });
  byId("save").addEventListener("click", save);
  byId("undo").addEventListener("click", undo);
  byId("skip").addEventListener("click", skip);
  byId("pause").addEventListener("click", () => { if (state === "looking") pause(); });
  byId("help").addEventListener("click", () => { if (state === "looking") help(); });
  document.addEventListener("visibilitychange", () => {
    if (state !== "looking") return;
    if (document.hidden) spent += performance.now() - shownAt;
    else shownAt = performance.now();
  });

  const start = guarded(async () => {
    const own = window.equipoiseReview;
    const token = location.hash.slice(1);
    if (!own && !token) { stopped("the address holds no personal link"); return; }
    source = own ? own() : server(decodeURIComponent(token));
    const told = await source.task();
    sheet = told.questionnaire;
    document.title = sheet.title;
    byId("title").textContent = sheet.title;
    byId("who").textContent = told.name;
    showProgress(told);
    welcome(told);
  });
  window.addEventListener("hashchange", () => location.reload());
  start();
})();
