"use strict";
// Tables that are sorted by the buttons of their head, and filtered by the form before them.

function textOf(row, column) {
  const cell = row.cells[column];
  const first = cell.firstChild;
  return first === null ? "" : (first.nodeType === Node.TEXT_NODE ? first.data : cell.textContent).trim();
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, column, heads));
  });
}

function sort(table, column, heads, order) {
  const number = heads[column].classList.contains("n");
  const before = heads[column].getAttribute("aria-sort");
  const direction = order || (before ? (before === "descending" ? "ascending" : "descending") : number ? "descending" : "ascending");
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => {
    const text = textOf(row, column);
    const key = number ? parseFloat(text.replace("(", "")) : text.toLowerCase();
    return { row, key, none: text === "–" || text === "" };
  });
  keyed.sort((a, b) => a.none - b.none || (a.none ? 0 : sign * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)));
  body.append(...keyed.map((one) => one.row));
}

function filterable(form, table) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const at = (name) => heads.findIndex((head) => head.textContent.trim() === name);
  const columns = table.id === "board" ? { search: at("search"), weights: at("model"), date: at("date"), dataset: at("dataset") } : {};
  const value = (name) => (form.elements[name] ? form.elements[name].value : "");
  function apply() {
    const wanted = value("find").toLowerCase();
    const family = value("family");
    const own = heads.findIndex((head) => head.dataset.family === family);
    let shown = 0;
    rows.forEach((row) => {
      const date = columns.date === undefined ? "" : textOf(row, columns.date);
      const keep = texts.get(row).includes(wanted)
        && ["search", "weights", "dataset"].every((name) => !value(name) || textOf(row, columns[name]) === value(name))
        && (!value("from") || (date !== "–" && date >= value("from")))
        && (!value("to") || (date !== "–" && date <= value("to")))
        && (!family || textOf(row, own) !== "–");
      row.hidden = !keep;
      shown += keep;
    });
    heads.forEach((head, column) => {
      const hide = Boolean(family && head.dataset.family && head.dataset.family !== family);
      if (head.hidden !== hide) {
        head.hidden = hide;
        rows.forEach((row) => { row.cells[column].hidden = hide; });
      }
    });
    form.querySelector(".count").textContent = `${shown} of ${rows.length}`;
  }
  form.addEventListener("input", (event) => {
    apply();
    if (event.target.name === "family" && event.target.value) {
      sort(table, heads.findIndex((head) => head.dataset.family === event.target.value), heads, "descending");
    }
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
}

document.querySelectorAll("table.sortable").forEach(sortable);
// not form.dataset: a field of the form is called dataset
document.querySelectorAll("form[data-for]").forEach((form) => filterable(form, document.getElementById(form.getAttribute("data-for"))));
