"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const tools = byId("tools"), filter = byId("filter"), stage = byId("by-stage"), verdict = byId("by-verdict");
  const items = all(".item").map((node) => ({ node, text: node.textContent.toLowerCase() }));
  const folds = all("main details");

  function apply() {
    const wanted = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const seen = { card: [0, 0], change: [0, 0] };
    for (const { node, text } of items) {
      const shown = (!stage.value || node.dataset.stage === stage.value)
        && (!verdict.value || node.dataset.verdict === verdict.value)
        && wanted.every((word) => text.includes(word));
      node.hidden = !shown;
      const count = seen[node.classList.contains("card") ? "card" : "change"];
      count[0] += shown;
      count[1] += 1;
    }
    const active = wanted.length || stage.value || verdict.value;
    const say = ([shown, total], noun) => `${shown} of ${total} ${noun}${total === 1 ? "" : "s"}`;
    byId("shown").textContent = active ? `Showing ${say(seen.card, "finding")} and ${say(seen.change, "change")}.` : "";
  }

  function reveal() {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && byId(id);
    if (!target) return;
    if (target.hidden) { filter.value = stage.value = verdict.value = ""; apply(); }
    if (target.tagName === "DETAILS") target.open = true;
    target.scrollIntoView();
  }

  async function copy(button) {
    const source = byId(button.dataset.copies);
    let done = false;
    try {
      await navigator.clipboard.writeText(source.textContent);
      done = true;
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      done = document.execCommand("copy");
    }
    button.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  for (const control of [filter, stage, verdict]) control.addEventListener("input", apply);
  byId("expand").addEventListener("click", () => folds.forEach((fold) => { fold.open = true; }));
  byId("collapse").addEventListener("click", () => folds.forEach((fold) => { fold.open = false; }));
  for (const button of all(".copy")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing) {
      event.preventDefault();
      filter.focus();
      filter.select();
    } else if (event.key === "Escape" && event.target === filter) {
      filter.value = "";
      apply();
    }
  });
  let before = [];
  addEventListener("beforeprint", () => {
    before = folds.filter((fold) => !fold.open);
    before.forEach((fold) => { fold.open = true; });
  });
  addEventListener("afterprint", () => before.forEach((fold) => { fold.open = false; }));
  addEventListener("hashchange", reveal);
  tools.hidden = items.length === 0;
  apply();
  reveal();
})();
