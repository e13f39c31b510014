/**
 * Text from files, made safe to show. A name may contain characters that have an effect instead of a glyph: they
 * reverse the direction of text or have no width. They are shown as `\u{202e}`, as the command shows them.
 */

// The same set as `is_hidden` of crates/report/src/escape.rs. Variation selectors belong to the emoji before them.
const HIDDEN =
  /[\p{Cc}\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}-\u{180f}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{3164}\u{feff}\u{ffa0}\u{fff0}-\u{fffb}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

const SHORT: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function escaped(character: string): string {
  return SHORT[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

/** One line of text without hidden characters. */
export function visible(text: string): string {
  return text.replace(HIDDEN, escaped);
}

/** The same with line breaks and tabs kept, for cells of a sheet. */
export function visibleInSheet(text: string): string {
  return text.replace(HIDDEN, (character) =>
    character === '\n' || character === '\t' ? character : escaped(character),
  );
}

/** The end of a long text, which differs more often than its beginning: `…layers.2.mlp`. */
export function ending(text: string, length: number): string {
  const characters = Array.from(visible(text));
  return characters.length <= length ? characters.join('') : `…${characters.slice(1 - length).join('')}`;
}

/** The beginning and the end of a long text. */
export function shortened(text: string, length: number): string {
  const characters = Array.from(visible(text));
  if (characters.length <= length) return characters.join('');
  const head = Math.ceil((length - 1) * 0.4);
  return `${characters.slice(0, head).join('')}…${characters.slice(head + 1 - length).join('')}`;
}

/** A heading has room for so many characters. */
const HEADING = 140;

/** The first sentences of a text that fit into a heading, at least one, and the rest. */
export function beginning(text: string): [string, string] {
  const sentences = text.match(/[^]*?(?:[.!?] |。|$)/g) ?? [];
  let end = 0;
  for (const sentence of sentences) {
    if (end > 0 && end + sentence.trimEnd().length > HEADING) break;
    end += sentence.length;
  }
  return [text.slice(0, end).trimEnd(), text.slice(end)];
}

/** A line of code without the folders that all files of a project share: `…/examples/demo.py:48 forward: …`. */
export function codePlace(text: string): string {
  return visible(text).replace(/(?<!\S)\S*[\\/]([^\\/\s]+[\\/][^\\/\s]+:\d+)(?!\S)/g, '…/$1');
}
