"use strict";
// The same page without a server: items from a file beside it, answers in this browser until they are downloaded.
window.equipoiseReview = () => {
  const told = window.equipoiseItems;
  const place = `equipoise review ${told.review} ${told.name}`;
  const saved = () => {
    try { return JSON.parse(localStorage.getItem(place)) || []; } catch { return []; }
  };
  const keep = answers => localStorage.setItem(place, JSON.stringify(answers));
  const state = () => {
    const answers = saved(), done = new Set(answers.map(one => one.item));
    return { done: done.size, total: told.items.length, next: told.items.find(one => !done.has(one.item)) || null };
  };
  const download = () => {
    const content = { format: told.format, review: told.review, name: told.name, answers: saved() };
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(content, null, 1)], { type: "application/json" }));
    link.download = `answers-${told.name}.json`;
    link.click();
  };
  const offer = () => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "main";
    button.id = "download";
    button.textContent = "Download the answers";
    button.addEventListener("click", download);
    return button;
  };
  document.getElementById("keys").append(offer());
  return {
    task: async () => ({ name: told.name, questionnaire: told.questionnaire, ...state() }),
    next: async () => state(),
    answer: async said => { keep([...saved().filter(one => one.item !== said.item), said]); return state(); },
    undo: async () => {
      const answers = saved(), last = answers.pop();
      keep(answers);
      if (!last) return state();
      return { ...state(), next: told.items.find(one => one.item === last.item), said: last.answers };
    },
    picture: async number => told.pictures[number],
    finished: () => { const one = offer(); one.id = "download-all"; return one; },
  };
};
