// Instructions in Markdown, as elements: text is set as text, so that nothing in it can run.

import { make } from "./sample.js";

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/;

function inline(text) {
  const found = INLINE.exec(text);
  if (!found) return text ? [text] : [];
  const [whole, code, strong, soft, words, address] = found;
  const made = code ? make("code", {}, code) : strong ? make("strong", {}, ...inline(strong)) : soft ? make("em", {}, ...inline(soft))
    : make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, words);
  return [text.slice(0, found.index), made, ...inline(text.slice(found.index + whole.length))];
}

// Headings go on below that of the dialog, without a gap: "##" after nothing is no third level.
function heading(hashes, text, levels) {
  while (levels.length && levels.at(-1) >= hashes) levels.pop();
  levels.push(hashes);
  return make(`h${Math.min(6, 2 + levels.length)}`, {}, ...inline(text));
}

const ITEM = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/;

export function markdown(text) {
  const made = [], levels = [];
  for (const block of text.replaceAll("\r", "").split(/\n\s*\n|\n(?=#)|(?<=^#.*)\n/m)) {
    const lines = block.split("\n").filter((line) => line.trim());
    if (!lines.length) continue;
    const head = /^(#{1,6})\s+(.*?)\s*#*$/.exec(lines[0]);
    if (head) { made.push(heading(head[1].length, head[2], levels)); lines.shift(); }
    let list = null, words = [];
    const paragraph = () => { if (words.length) made.push(make("p", {}, ...inline(words.join(" ")))); words = []; };
    for (const line of lines) {
      const item = ITEM.exec(line);
      if (item) {
        paragraph();
        if (list?.tagName !== (item[1] ? "OL" : "UL")) { list = make(item[1] ? "ol" : "ul"); made.push(list); }
        list.append(make("li", {}, ...inline(item[2])));
      } else if (list && /^\s/.test(line)) list.lastChild.append(" ", ...inline(line.trim()));
      else { list = null; words.push(line.trim()); }
    }
    paragraph();
  }
  return made;
}
