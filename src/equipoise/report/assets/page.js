(function () {
  "use strict";
  var table = document.getElementById("subject-table");
  if (!table) { return; }
  var body = table.tBodies[0];
  var rows = Array.prototype.slice.call(body.rows);
  var text = document.getElementById("f-text");
  var sure = document.getElementById("f-sure");
  var status = document.getElementById("f-count");
  var selects = Array.prototype.slice.call(document.querySelectorAll(".filters select"));
  var dots = Array.prototype.slice.call(document.querySelectorAll("#subjects circle[data-subject]"));

  function key(row, column) {
    var cell = row.cells[column];
    if (!cell.hasAttribute("data-v")) { return cell.textContent.toLowerCase(); }
    var value = cell.getAttribute("data-v");
    return value === "" ? null : Number(value);
  }

  function sortBy(header, column) {
    var up = header.getAttribute("aria-sort") === "descending";
    Array.prototype.forEach.call(header.parentNode.cells, function (th) { th.removeAttribute("aria-sort"); });
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    rows.sort(function (a, b) {
      var x = key(a, column), y = key(b, column);
      if (x === null || y === null) { return (x === null) - (y === null); }
      return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }

  function filter() {
    var wanted = text.value.trim().toLowerCase(), shown = 0;
    rows.forEach(function (row) {
      var fits = row.cells[0].firstChild.textContent.toLowerCase().indexOf(wanted) >= 0;
      selects.forEach(function (s) { fits = fits && (!s.value || row.getAttribute("data-" + s.dataset.column) === s.value); });
      fits = fits && (!sure.checked || row.classList.contains("sure"));
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    status.textContent = shown === rows.length ? shown + " rows" : shown + " of " + rows.length + " rows";
    dots.forEach(function (dot) {
      var found = wanted && dot.getAttribute("data-subject").indexOf(wanted) >= 0;
      dot.classList.toggle("found", Boolean(found));
      dot.classList.toggle("faint", Boolean(wanted) && !found);
    });
  }

  Array.prototype.forEach.call(table.tHead.rows[0].cells, function (header, column) {
    header.querySelector("button").addEventListener("click", function () { sortBy(header, column); });
  });
  document.querySelector(".filters").addEventListener("submit", function (event) { event.preventDefault(); });
  [text, sure].concat(selects).forEach(function (control) { control.addEventListener("input", filter); });
}());
