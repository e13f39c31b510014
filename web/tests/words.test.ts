/** The page uses the words of the project: no phrase of tests/words. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { wordKeys } from '../src/payload.ts';
import { wordsOf } from './support/words.ts';

const LIST = new URL('../../tests/words/phrases.txt', import.meta.url);
const SOURCES = new URL('../src/', import.meta.url);

const phrases = readFileSync(LIST, 'utf8')
  .split('\n')
  .filter((line) => line && !line.startsWith('#'))
  .map((line) => line.split(' => ') as [string, string]);

test('the texts of the page are in plain words', () => {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.(ts|svelte)$/.test(file),
  );
  assert.ok(files.length > 30 && phrases.length > 20);
  const found = files.flatMap((file) => {
    const text = readFileSync(new URL(file, SOURCES), 'utf8').replaceAll(/\s+/g, ' ').toLowerCase();
    return phrases.flatMap(([phrase, instead]) =>
      new RegExp(`\\b${phrase.toLowerCase().replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?!\\w)`).test(text)
        ? [`${file}: "${phrase}": write "${instead}"`]
        : [],
    );
  });
  assert.deepEqual(found, []);
});

test('every language has the words of the first screen', () => {
  for (const language of ['english', 'chinese'] as const) {
    const words = wordsOf(language, 'call');
    assert.deepEqual(
      wordKeys.filter((key) => !words[key]),
      [],
    );
    assert.ok(Object.keys(words.classes).length >= 20 && words.noun && words.nouns);
  }
});
