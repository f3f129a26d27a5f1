"use strict";
const runs = [...document.querySelectorAll("script.run")].map((element) => () => JSON.parse(element.textContent));
const loaded = [];

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function folded(title, ...content) {
  const details = make("details");
  details.append(make("summary", title), ...content);
  return details;
}

function patch(text) {
  const pre = make("pre");
  for (const line of text.split("\n")) {
    const kind = /^(\+\+\+|---|diff |index |@@)/.test(line) ? "place" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "";
    pre.append(kind ? make("span", line, kind) : document.createTextNode(line + "\n"));
  }
  return pre;
}

function step(one) {
  const first = (one.text || one.reasoning || "").trim().split("\n")[0].slice(0, 120);
  const tools = (one.calls || []).map((call) => `${call.tool}: ${call.arguments.split("\n")[0].slice(0, 100)}`).join(" · ");
  const details = folded(`${one.n ?? ""} ${one.source} ${tools || first}`);
  details.className = `step ${one.source}`;
  if (one.reasoning) details.append(make("p", "reasoning"), make("pre", one.reasoning));
  if (one.text) details.append(make("pre", one.text));
  for (const call of one.calls || []) {
    details.append(make("p", call.tool), make("pre", call.arguments));
    if (call.result) details.append(make("pre", call.result));
  }
  if (one.rest) details.append(make("pre", one.rest));
  return details;
}

function steps(all) {
  const box = make("section");
  const label = make("label", "Search the steps ");
  const input = make("input");
  input.type = "search";
  label.append(input);
  const made = all.map(step);
  const said = make("span", `${all.length} steps`);
  said.setAttribute("role", "status");
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    let shown = 0;
    made.forEach((element) => {
      element.hidden = wanted !== "" && !element.textContent.toLowerCase().includes(wanted);
      element.open = wanted !== "" && !element.hidden;
      shown += !element.hidden;
    });
    said.textContent = `${shown} of ${all.length} steps`;
  });
  box.append(make("h3", "Trajectory"), label, said, ...made);
  return box;
}

function rowsOf(head, rows) {
  const table = make("table");
  const top = make("tr");
  head.forEach((name) => { const th = make("th", name); th.scope = "col"; top.append(th); });
  const body = make("tbody");
  rows.forEach((cells) => { const tr = make("tr"); cells.forEach((cell) => tr.append(make("td", cell ?? ""))); body.append(tr); });
  const thead = make("thead");
  thead.append(top);
  table.append(thead, body);
  return table;
}

function show(run, number) {
  loaded[run] ??= runs[run]();
  const one = loaded[run][number];
  const body = document.getElementById("attempt-body");
  const title = make("h2", `${one.id} (${one.attempt})`);
  title.id = "attempt-title";
  const parts = [title, make("p", `${one.family} · ${one.status} · agent ${one.agent_status ?? "–"} · score ${one.score}`)];
  if (one.error) parts.push(make("pre", one.error));
  if (one.note) parts.push(make("p", one.note));
  if (one.flags.length) parts.push(make("p", `flags: ${one.flags.join(", ")}`));
  parts.push(make("p", Object.entries(one.timings).map(([name, value]) => `${name} ${value} s`).join(" · ")));
  const usage = Object.entries(one.usage).filter(([, value]) => value !== null && typeof value !== "object");
  if (usage.length) parts.push(make("p", usage.map(([name, value]) => `${name} ${value}`).join(" · ")));
  const prompt = (one.steps || []).find((s) => s.source === "user");
  if (prompt) parts.push(folded("Prompt", make("pre", prompt.text)));
  if (one.steps && one.steps.length) parts.push(steps(one.steps));
  if (one.patch) parts.push(make("h3", "Patch"), patch(one.patch));
  for (const [kind, tests] of Object.entries(one.tests)) {
    const names = Object.entries(tests).sort((a, b) => (a[1] === "passed") - (b[1] === "passed"));
    const passed = names.filter(([, result]) => result === "passed").length;
    parts.push(folded(`Tests, ${kind}: ${passed} of ${names.length} passed`, rowsOf(["test", "outcome"], names)));
  }
  if (one.log) parts.push(folded("Log of the tests", make("pre", one.log)));
  if (one.agent_log) parts.push(folded("Log of the agent", make("pre", one.agent_log)));
  if (one.requests) {
    const cells = one.requests.map((r) => [r.time, r.method, r.url, r.decision, r.rule, r.status, r.size]);
    parts.push(folded(`Requests: ${cells.length}`, rowsOf(["time", "method", "address", "decision", "rule", "status", "bytes"], cells)));
  }
  body.replaceChildren(...parts);
  document.getElementById("attempt").showModal();
}

const tables = [...document.querySelectorAll("table.attempts")];
tables.forEach((table) => table.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-attempt]");
  if (!link) return;
  event.preventDefault();
  show(Number(table.dataset.run), Number(link.dataset.attempt));
}));

const search = document.getElementById("search");
if (search) {
  const family = document.getElementById("family");
  const status = document.getElementById("status");
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  [...new Set(rows.map((row) => row.dataset.status))].sort().forEach((name) => status.append(make("option", name)));
  const filter = () => {
    const wanted = search.value.toLowerCase();
    let shown = 0;
    rows.forEach((row) => {
      row.hidden = !(row.textContent.toLowerCase().includes(wanted)
        && (!family.value || row.dataset.family === family.value)
        && (!status.value || row.dataset.status === status.value));
      shown += !row.hidden;
    });
    document.getElementById("count").textContent = `${shown} of ${rows.length}`;
  };
  [search, family, status].forEach((control) => control.addEventListener("input", filter));
  filter();
}
