"use strict";
// A table whose columns sort its rows: numbers as numbers, what has none last.
(() => {
  const table = document.querySelector("table.index");
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, place) => {
    const cell = row.cells.length === heads.length || place < 2 ? row.cells[place] : null; // why it failed is no number
    return cell?.dataset.value ?? cell?.textContent ?? "";
  };
  const compared = (one, other) => {
    if (one === "" || other === "") return (one === "") - (other === "");
    const numbers = [Number(one), Number(other)];
    return numbers.some(Number.isNaN) ? one.localeCompare(other, "en") : numbers[0] - numbers[1];
  };
  heads.forEach((head, place) => {
    head.firstElementChild.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((one, other) => {
        const [a, b] = [value(one, place), value(other, place)];
        return compared(a, b) * (down && a !== "" && b !== "" ? -1 : 1);
      });
      table.tBodies[0].append(...rows);
    });
  });
})();
