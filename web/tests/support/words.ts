/** The words of the first screen, read from where they are written: crates/page/src/words. */
import { readFileSync } from 'node:fs';
import type { Manifest, Words } from '../../src/payload.ts';

/** The words of a language, for a page about calls, parameters or tensors. */
export function wordsOf(language: 'english' | 'chinese', noun: Manifest['noun']): Words {
  const file = new URL(`../../../crates/page/src/words/${language}.rs`, import.meta.url);
  const text = readFileSync(file, 'utf8');
  const nouns = [...(/nouns: \[(.*)\],$/m.exec(text)?.[1] ?? '').matchAll(/\["([^"]*)", "([^"]*)"\]/g)];
  const [, one, many] = nouns[['call', 'parameter', 'tensor'].indexOf(noun)] ?? [];
  const words = Object.fromEntries(
    [...text.matchAll(/^ {4}(\w+): "((?:[^"\\]|\\.)*)",$/gm)].map(([, key, word]) => [
      key,
      word?.replace('{nouns}', many ?? '').replace('{noun}', one ?? ''),
    ]),
  );
  const classes = Object.fromEntries(
    [...text.matchAll(/\(\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)",?\s*\)/g)].map(([, key, name, meaning]) => [
      key,
      { name, meaning },
    ]),
  );
  // Where a page is about tensors that no call made, some words take the place of others.
  const replaced = Object.entries(words).flatMap(([key, word]) =>
    key.endsWith('_saved') && noun !== 'call' ? [[key.replace(/_saved$/, ''), word]] : [],
  );
  return { ...words, ...Object.fromEntries(replaced), noun: one, nouns: many, classes } as Words;
}
