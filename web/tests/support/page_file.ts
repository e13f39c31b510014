/** Writes pages as crates/page does, from data of the tests: parts, in a file or for a server. */
import { readFileSync } from 'node:fs';
import { deflateRawSync, inflateRawSync } from 'node:zlib';

export type Value = string | number | null;
export type PageParts = Map<string, Buffer>;

/** The built page. */
export function template(): string {
  const path = new URL('../../../crates/report/page/index.html', import.meta.url);
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new Error('crates/report/page/index.html is not there: run `make web` first');
  }
}

export function jsonPart(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** Numbers as float64 with a bitmap of what is present; texts as a dictionary. */
export function columnPart(values: readonly Value[]): Buffer {
  return values.some((value) => typeof value === 'string') ? dictionaryPart(values) : numberPart(values);
}

function header(kind: number, hasBitmap: boolean, length: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes[0] = kind;
  bytes[1] = hasBitmap ? 1 : 0;
  bytes.writeUInt32LE(length, 4);
  return bytes;
}

function dictionaryPart(values: readonly Value[]): Buffer {
  const codes = new Map<Value, number>();
  const coded = values.map((value) => {
    const plain = typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
    const known = codes.get(plain) ?? codes.size;
    codes.set(plain, known);
    return known;
  });
  return Buffer.concat([header(0, false, values.length), jsonPart({ values: [...codes.keys()], codes: coded })]);
}

function numberPart(values: readonly Value[]): Buffer {
  const count = values.length;
  const bitmap = Buffer.alloc(Math.ceil(count / 8));
  const plain = Buffer.alloc(count * 8);
  values.forEach((value, index) => {
    if (typeof value !== 'number') return;
    bitmap[index >> 3] = (bitmap[index >> 3] ?? 0) | (1 << (index & 7));
    plain.writeDoubleLE(value, index * 8);
  });
  const transposed = Buffer.alloc(count * 8);
  for (let index = 0; index < count * 8; index += 1) {
    transposed[(index % 8) * count + (index >> 3)] = plain[index] ?? 0;
  }
  const hasMissing = values.some((value) => value === null);
  return Buffer.concat([header(1, hasMissing, count), ...(hasMissing ? [bitmap] : []), transposed]);
}

export function deflated(parts: PageParts): PageParts {
  return new Map([...parts].map(([name, bytes]) => [name, deflateRawSync(bytes)]));
}

/** One html file with its parts. */
export function pageWithParts(parts: PageParts, page = template()): string {
  const elements = [...deflated(parts)].map(
    ([name, bytes]) => `<script type="text/plain" data-part="${name}">${bytes.toString('base64')}</script>`,
  );
  return filled(page, elements.join('\n'));
}

/** The page as a server sends it. */
export function pageOfServer(page = template()): string {
  return filled(page, '<meta name="ulpscope-parts" content="parts/">');
}

function filled(page: string, parts: string): string {
  for (const comment of ['<!--ulpscope:static-->', '<!--ulpscope:parts-->']) {
    if (page.split(comment).length !== 2) throw new Error(`the page must contain ${comment} once`);
  }
  return page
    .replace('<!--ulpscope:static-->', '<p>The first screen, for readers that run no script.</p>')
    .replace('<!--ulpscope:parts-->', () => parts);
}

/** The parts of a page that was written, not compressed. */
export function partsOfPage(html: string): PageParts {
  const elements = html.matchAll(/<script type="text\/plain" data-part="([^"]+)">([^<]*)<\/script>/g);
  return new Map([...elements].map(([, name = '', text = '']) => [name, inflateRawSync(Buffer.from(text, 'base64'))]));
}
