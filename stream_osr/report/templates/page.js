// Draws every figure from its specification, and takes names out of a plane where they would cover each other.
const overlaps = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

function thin(figure) {
  const shown = [];
  for (const text of figure.querySelectorAll(".names_marks text")) {
    text.style.visibility = "";
    const box = text.getBoundingClientRect();
    const covered = shown.some((other) => overlaps(box, other));
    text.style.visibility = covered ? "hidden" : "";
    if (!covered) shown.push(box);
  }
}

async function draw(figure, spec) {
  await vegaEmbed(figure, spec, { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } });
  if (figure.classList.contains("plane")) {
    thin(figure);
    new MutationObserver(() => requestAnimationFrame(() => thin(figure)))
      .observe(figure, { attributes: true, attributeFilter: ["width", "transform"], subtree: true });
  }
}

const specs = JSON.parse(document.getElementById("specs").textContent);
Promise.all([...document.querySelectorAll("[data-figure]")].map((figure) => draw(figure, specs[figure.dataset.figure])))
  .then(() => { document.documentElement.dataset.drawn = "yes"; });
