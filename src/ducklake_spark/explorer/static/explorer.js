// What the pages do beyond links and forms. Everything that is shown comes as HTML from the server, which escaped it.
"use strict";

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

function parsed(html) {
  return new DOMParser().parseFromString(html, "text/html").body;
}

async function fetched(url, options) {
  const response = await fetch(url, { credentials: "same-origin", ...options });
  const text = await response.text();
  if (!response.ok && response.status !== 404) throw new Error(text.startsWith("<") ? response.statusText : text);
  return text;
}

function failure(message) {
  const box = document.createElement("div");
  box.className = "failure";
  box.setAttribute("role", "alert");
  box.textContent = message;
  return box;
}

// Parts of a page that come later, and queries that are not over yet.
async function load(element) {
  try {
    element.replaceChildren(...parsed(await fetched(element.dataset.load)).childNodes);
  } catch (error) {
    element.replaceChildren(failure(`This could not be loaded: ${error.message}`));
  }
}

async function replace(element, url) {
  let made;
  try {
    made = $(".run", parsed(await fetched(url))) || failure("The explorer gave an answer that cannot be shown.");
  } catch (error) {
    made = failure(`The explorer does not answer: ${error.message || "is it still running?"}`);
  }
  element.replaceWith(made);
  watch(made);
}

function watch(root) {
  const waiting = [root, ...$$("[data-poll]", root)].filter((element) => element.dataset && element.dataset.poll);
  for (const element of waiting) {
    const timer = setInterval(() => {
      const shown = $("[data-seconds]", element);
      if (!element.isConnected) clearInterval(timer);
      else if (shown) {
        shown.dataset.seconds = Number(shown.dataset.seconds) + 1;
        shown.textContent = `${shown.dataset.seconds} s`;
      }
    }, 1000);
    replace(element, element.dataset.poll); // the server answers when there is something new, or after a while
  }
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-replace]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    link.setAttribute("aria-busy", "true");
    await replace(link.closest(".run"), link.dataset.replace);
  }
  const post = event.target.closest("[data-post]");
  if (post) {
    post.disabled = true;
    await fetched(post.dataset.post, { method: "POST" });
  }
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    await navigator.clipboard.writeText(copy.dataset.copy);
    copy.textContent = "Copied";
  }
  const cell = event.target.closest("[data-long]");
  if (cell && !String(getSelection())) cell.classList.toggle("open");
});

// Lists that follow what is typed.
for (const form of $$("form[data-live]")) {
  let timer;
  let newest = 0;
  const update = async () => {
    const asked = new URLSearchParams(new FormData(form));
    for (const [key, value] of [...asked]) if (!value) asked.delete(key);
    const shown = `${form.getAttribute("action")}?${asked}`;
    const own = ++newest;
    asked.set("part", "tables");
    const text = await fetched(`${form.getAttribute("action")}?${asked}`);
    if (own !== newest) return;
    $(form.dataset.live).replaceChildren(...parsed(text).childNodes);
    history.replaceState(null, "", shown);
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(update, 120);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    update();
  });
}

// Two snapshots, not more: the third takes the place of the first.
const pick = $("#pick");
const button = $("#compare");
if (pick && button) {
  let picked = $$("input:checked", pick);
  const update = () => {
    button.disabled = picked.length !== 2;
    button.textContent = picked.length === 2 ? `Compare ${picked.map((box) => box.value).sort((a, b) => a - b).join(" → ")}` : "Compare";
  };
  pick.addEventListener("change", (event) => {
    picked = picked.filter((box) => box !== event.target);
    if (event.target.checked) picked.push(event.target);
    if (picked.length > 2) picked.shift().checked = false;
    update();
  });
  update();
}

// Light and dark.
$("#theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  document.cookie = `theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
});

// Keys.
const dialog = $("#shortcuts");
$("#keys").addEventListener("click", () => dialog.showModal());
const places = { o: "/", t: "/timeline", s: "/sql" };
let before = "";
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "Enter" && event.target.matches("[data-long]")) event.target.classList.toggle("open");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && $("[data-filter]")) {
    event.preventDefault();
    $("[data-filter]").focus();
  } else if (event.key === "?") dialog.showModal();
  else if (event.key === "[" || event.key === "]") {
    const link = $(`a[rel="${event.key === "[" ? "prev" : "next"}"]`);
    if (link) link.click();
  } else if (before === "g" && places[event.key]) location.href = places[event.key];
  before = event.key;
});

// The editor: suggestions while typing.
const editor = $("#text");
if (editor) {
  const list = $("#suggestions");
  let items = [];
  let chosen = 0;
  let moved = false; // only who went to a suggestion means it with Enter
  let timer;
  let newest = 0;

  const close = () => {
    list.hidden = true;
    items = [];
    newest += 1;
    editor.removeAttribute("aria-activedescendant");
  };

  const place = () => {
    // A copy of the text before the cursor says where the cursor is.
    const copy = document.createElement("div");
    const style = getComputedStyle(editor);
    for (const name of ["fontFamily", "fontSize", "lineHeight", "padding", "border", "tabSize", "boxSizing"]) copy.style[name] = style[name];
    Object.assign(copy.style, { position: "absolute", visibility: "hidden", whiteSpace: "pre-wrap", overflowWrap: "break-word", width: `${editor.clientWidth}px` });
    copy.textContent = editor.value.slice(0, editor.selectionStart);
    const mark = document.createElement("span");
    mark.textContent = "\u200b";
    copy.append(mark);
    editor.parentElement.append(copy);
    const left = Math.min(mark.offsetLeft, editor.clientWidth - list.offsetWidth);
    list.style.left = `${Math.max(0, left)}px`;
    list.style.top = `${mark.offsetTop + mark.offsetHeight - editor.scrollTop + 4}px`;
    copy.remove();
  };

  const choose = (index) => {
    chosen = (index + items.length) % items.length;
    $$("li", list).forEach((line, place) => line.setAttribute("aria-selected", String(place === chosen)));
    const line = list.children[chosen];
    editor.setAttribute("aria-activedescendant", line.id);
    line.scrollIntoView({ block: "nearest" });
  };

  const take = (item) => {
    const cursor = editor.selectionStart;
    editor.setRangeText(item.text, cursor - item.replaced, cursor, "end");
    close();
    editor.focus();
  };

  const suggest = async () => {
    const own = ++newest;
    const asked = new URLSearchParams({
      text: editor.value,
      cursor: editor.selectionStart,
      dialect: $("input[name=dialect]:checked").value,
    });
    if (String(asked).length > 6000) return close();
    const found = JSON.parse(await fetched(`${editor.dataset.complete}?${asked}`));
    if (own !== newest) return;
    if (!found.length) return close();
    items = found;
    list.replaceChildren(
      ...found.map((item, index) => {
        const line = document.createElement("li");
        line.id = `suggestion-${index}`;
        line.setAttribute("role", "option");
        for (const text of [item.shown, item.kind]) {
          const part = document.createElement("span");
          part.textContent = text;
          line.append(part);
        }
        line.addEventListener("mousedown", (event) => {
          event.preventDefault();
          take(item);
        });
        return line;
      }),
    );
    list.hidden = false;
    moved = false;
    place();
    choose(0);
  };

  editor.setSelectionRange(editor.value.length, editor.value.length);
  editor.addEventListener("input", () => {
    clearTimeout(timer);
    const last = editor.value[editor.selectionStart - 1] || "";
    if (/[\w.]/.test(last)) timer = setTimeout(suggest, 100);
    else close();
  });
  editor.addEventListener("blur", close);
  editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      editor.form.requestSubmit();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      suggest();
    } else if (!list.hidden) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        moved = true;
        choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
      } else if (event.key === "Tab" || (event.key === "Enter" && moved)) {
        event.preventDefault();
        take(items[chosen]);
      } else if (event.key === "Escape") {
        event.preventDefault();
        close();
      }
    }
  });
}

for (const element of $$("[data-load]")) load(element);
watch(document.body);
