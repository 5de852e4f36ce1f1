"use strict";
// Finding and folding. The page holds everything without it; nothing of what is shown is written by it.
(() => {
  // The search field hides the entries that do not hold all of its words, and steps without any.
  for (const field of document.querySelectorAll("input[data-filter]")) {
    const section = document.getElementById(field.dataset.filter);
    const rows = [...section.querySelectorAll("li.entry")];
    const steps = [...section.querySelectorAll("details.step")];
    const told = field.closest(".search").querySelector("output");
    let texts = null;
    const search = () => {
      texts ??= rows.map((row) => row.textContent.toLowerCase());
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let found = 0;
      rows.forEach((row, i) => {
        const fits = words.every((word) => texts[i].includes(word));
        row.hidden = !fits;
        found += fits;
      });
      for (const step of steps) {
        step.hidden = words.length > 0 && !step.querySelector("li.entry:not([hidden])");
        if (words.length && !step.hidden) for (let at = step; at !== section; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
      }
      told.value = words.length ? `${found} of ${rows.length}` : "";
    };
    let wait = 0;
    field.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(search, 80);
    });
    field.closest(".search").hidden = false;
  }

  // One state at a time, chosen from a list.
  const states = [...document.querySelectorAll("details.state")];
  const select = document.querySelector("#states select");
  const show = (at) => {
    const chosen = Math.min(Math.max(at, 0), states.length - 1);
    select.selectedIndex = chosen;
    states.forEach((state, i) => {
      state.hidden = i !== chosen;
      state.open = i === chosen;
    });
  };
  if (select && states.length > 1) {
    for (const state of states) {
      const note = state.querySelector("summary .note").textContent.split(",").slice(0, 2).join(",");
      select.append(new Option(`${state.querySelector("b").textContent} (${note})`));
    }
    select.addEventListener("change", () => show(select.selectedIndex));
    for (const button of document.querySelectorAll("#states button")) {
      button.addEventListener("click", () => show(select.selectedIndex + Number(button.dataset.move)));
    }
    select.closest("p").hidden = false;
    show(states.length - 1);
  }

  // Paper shows all that is folded; afterwards it is as it was.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const one of folded) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of folded) one.open = false;
    folded = [];
  });

  // What is linked to is unfolded.
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (states.includes(target)) show(states.indexOf(target));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.querySelector(":scope > details")?.setAttribute("open", "");
    target.scrollIntoView({ block: "start" });
  };
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();
})();
