"use strict";
(() => {
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const touch = window.matchMedia("(hover: none)");
  // On dark paper black is not seen and deep blue hardly.
  // On white paper yellow is hardly seen.
  const onLight = { "#f0e442": "#a89a00" };
  const onDark = { "#000000": "#f2f2f2", "#0072b2": "#3f9fe0", "#56b4e9": "#b5e3ff", "#009e73": "#22c79a" };

  // Browsers may refuse storage to pages that are opened from disk.
  const remember = (theme) => { try { localStorage.setItem("pdnas-theme", theme); } catch { /* not kept */ } };
  const remembered = () => { try { return localStorage.getItem("pdnas-theme"); } catch { return null; } };

  const isDark = () => root.dataset.theme === "dark";
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function recolored(value) {
    if (Array.isArray(value)) return value;
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, part]) => [
        key, key === "color" && typeof part === "string" ? (isDark() ? onDark : onLight)[part] || part : recolored(part),
      ]));
    }
    return value;
  }

  const isNarrow = (element) => element.clientWidth < 500;

  function dressed({ layout, narrow }, element) {
    const axis = { gridcolor: color("--grid"), linecolor: color("--rule"), zerolinecolor: color("--rule"), automargin: true };
    const full = {
      ...layout,
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: color("--ink") },
      margin: { l: 48, r: 16, t: 8, b: 40 },
      legend: {
        orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, maxheight: 0.8, itemwidth: 44,
        font: { size: 11 },
      },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: color("--faint"), activecolor: color("--ink") },
      hovermode: "closest",
      hoverlabel: { namelength: -1 },
      dragmode: isNarrow(element) ? false : "zoom",
    };
    for (const name of ["xaxis", "xaxis2", "yaxis", "yaxis2"]) {
      if (!(name in full)) continue;
      full[name] = { ...axis, ...full[name], ...(isNarrow(element) && narrow ? narrow[name] : {}) };
      full[name].title = { standoff: 6, ...full[name].title };
    }
    return full;
  }

  // On a phone the legend has few columns: the plot grows by its lines.
  function grow(element, data) {
    const names = data.filter((trace) => trace.showlegend !== false).map((trace) => (trace.name || "").length);
    if (!isNarrow(element) || names.length < 2) return;
    const columns = Math.max(1, Math.floor((element.clientWidth - 64) / (56 + 6.5 * Math.max(...names))));
    element.style.height = `${270 + 19 * Math.ceil(names.length / columns)}px`;
  }

  function draw(element) {
    const plot = plots[element.dataset.plot];
    grow(element, plot.data);
    const config = {
      responsive: true, displaylogo: false, showSendToCloud: false, showLink: false, plotlyServerURL: "",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
      displayModeBar: touch.matches || isNarrow(element) ? false : "hover",
    };
    Plotly.react(element, plot.data.map(recolored), dressed(plot, element), config)
      .then(() => { element.dataset.drawn = "yes"; });
  }

  const all = [...document.querySelectorAll(".plot")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        seen.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "600px 0px" });

  // Paper has what is folded only if it is a table, and no dark colors.
  let folded = null;
  let theme = null;
  function beginPrint() {
    if (folded) return;
    folded = [...document.querySelectorAll("details.group:not([open])")];
    for (const each of folded) each.open = true;
    theme = root.dataset.theme;
    root.classList.add("printing");
    setTheme("light");
    for (const element of all) if (!element.dataset.drawn) draw(element);
  }
  function endPrint() {
    if (!folded) return;
    for (const each of folded) each.open = false;
    folded = null;
    root.classList.remove("printing");
    setTheme(theme);
  }
  window.addEventListener("beforeprint", beginPrint);
  window.addEventListener("afterprint", endPrint);
  window.matchMedia("print").addEventListener("change", (event) => {
    if (event.matches) beginPrint();
    else endPrint();
  });

  function setTheme(theme) {
    root.dataset.theme = theme;
    button.setAttribute("aria-pressed", String(theme === "dark"));
    for (const element of all) if (element.dataset.drawn) draw(element);
  }

  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    remember(theme);
    setTheme(theme);
  });
  system.addEventListener("change", (event) => {
    if (!remembered()) setTheme(event.matches ? "dark" : "light");
  });
  setTheme(remembered() || (system.matches ? "dark" : "light"));
  for (const element of all) seen.observe(element);

  // A page that loads itself again stays where it was read, and as open as it was.
  if (document.querySelector("meta[http-equiv=refresh]")) {
    const folds = [...document.querySelectorAll("details")].map((element) => {
      const figure = element.closest("figure")?.getAttribute("aria-labelledby") || "";
      return { element, name: `${figure} ${element.querySelector("summary").textContent.trim()}`, begun: element.open };
    });
    try {
      const changed = JSON.parse(sessionStorage.getItem("pdnas-open") || "{}");
      for (const { element, name } of folds) element.open = changed[name] ?? element.open;
      const place = sessionStorage.getItem("pdnas-place");
      if (place) window.scrollTo({ top: Number(place), behavior: "instant" });
      window.addEventListener("pagehide", () => {
        const others = folds.filter(({ element, begun }) => element.open !== begun);
        const now = Object.fromEntries(others.map(({ element, name }) => [name, element.open]));
        sessionStorage.setItem("pdnas-open", JSON.stringify(now));
        sessionStorage.setItem("pdnas-place", String(window.scrollY));
      });
    } catch { /* storage is refused */ }
  }

  async function copy(text) {
    if (navigator.clipboard && window.isSecureContext) {
      try {
        await navigator.clipboard.writeText(text);
        return true;
      } catch { /* not allowed: the old way may be */ }
    }
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }

  for (const each of document.querySelectorAll("button.copy")) {
    each.addEventListener("click", async () => {
      const done = await copy(each.parentElement.querySelector("code").textContent);
      each.focus();
      each.textContent = done ? "Copied" : "Select it";
      document.getElementById("said").textContent = done ? "The command is copied." : "It cannot be copied here.";
      setTimeout(() => { each.textContent = "Copy"; }, still ? 4000 : 2000);
    });
  }
})();
