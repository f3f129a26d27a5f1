"use strict";
// The table of who solves what: some columns at a time, of thousands.

const source = document.getElementById("data");
const matrices = source ? JSON.parse(source.textContent) : [];
const WIDE = 25;
let first = 0;

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function link(submission) {
  const a = make("a", submission[1]);
  a.href = `s/${submission[0]}.html`;
  return a;
}

function cell(code) {
  if (code === "+") return make("td", "✓", "y");
  if (code === "0") return make("td", "✗", "x");
  if (code === ".") return make("td", "–");
  return make("td", `0.${code}`, "p");
}

function solvers(matrix, at) {
  return matrix.submissions.filter((_, n) => matrix.cells[n][at] === "+");
}

function showSolvers(matrix, at) {
  const who = solvers(matrix, at);
  document.getElementById("solvers-title").textContent = `${matrix.instances[at][0]}: solved by ${who.length} of ${matrix.submissions.length}`;
  document.querySelector("#solvers ul").replaceChildren(...who.map((submission) => {
    const item = make("li");
    item.append(link(submission));
    return item;
  }));
  document.getElementById("solvers").showModal();
}

function draw() {
  const matrix = matrices[Number(document.getElementById("dataset").value)];
  const instances = document.getElementById("instances").value.toLowerCase();
  const wanted = document.getElementById("submissions").value.toLowerCase();
  const columns = matrix.submissions.map((_, n) => n).filter((n) => matrix.submissions[n].join(" ").toLowerCase().includes(wanted));
  first = Math.max(0, Math.min(first, columns.length - 1));
  first -= first % WIDE;
  const shown = columns.slice(first, first + WIDE);
  const head = make("tr");
  for (const [text, name] of [["instance", ""], ["family", ""], ["solved by", "n"]]) {
    const th = make("th", text, name);
    th.scope = "col";
    head.append(th);
  }
  shown.forEach((n) => {
    const th = make("th", "", "c");
    th.scope = "col";
    th.append(link(matrix.submissions[n]));
    head.append(th);
  });
  const rows = [];
  matrix.instances.forEach(([id, family], at) => {
    if (!`${id} ${family}`.toLowerCase().includes(instances)) return;
    const row = make("tr");
    const th = make("th", id);
    th.scope = "row";
    const count = make("td", "", "n");
    const n = solvers(matrix, at).length;
    const button = make("button", String(n));
    button.type = "button";
    button.setAttribute("aria-label", `${n} solve ${id}: list them`);
    button.addEventListener("click", () => showSolvers(matrix, at));
    count.append(button);
    row.append(th, make("td", family), count, ...shown.map((column) => cell(matrix.cells[column][at])));
    rows.push(row);
  });
  const table = document.getElementById("matrix");
  table.tHead.replaceChildren(head);
  table.tBodies[0].replaceChildren(...rows);
  document.getElementById("before").disabled = first === 0;
  document.getElementById("after").disabled = first + WIDE >= columns.length;
  document.getElementById("count").textContent = columns.length
    ? `${rows.length} instances; submissions ${first + 1} to ${first + shown.length} of ${columns.length}` : "no submission";
}

if (matrices.length) {
  ["dataset", "instances", "submissions"].forEach((id) => document.getElementById(id).addEventListener("input", () => {
    if (id !== "instances") first = 0;
    draw();
  }));
  document.getElementById("before").addEventListener("click", () => { first -= WIDE; draw(); });
  document.getElementById("after").addEventListener("click", () => { first += WIDE; draw(); });
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  draw();
}
