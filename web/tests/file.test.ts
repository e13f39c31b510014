import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Browser } from './support/browser.ts';
import { eventually } from './support/cases.ts';
import { modelParts } from './support/model.ts';
import { pageWithParts, template } from './support/page_file.ts';

let browser: Browser;
before(async () => (browser = await Browser.start()));
after(() => browser.stop());

test('the built page is one file that names nothing outside', () => {
  const html = template().replaceAll(/<!--.*?-->/gs, '');
  // Names of XML name spaces are addresses by form only.
  const addresses = [...html.matchAll(/https?:\/\/[\w.-]+[^\s"'`)]*/g)].map(([one]) => one);
  const outside = addresses.filter((one) => !/^http:\/\/www\.w3\.org\/|^https:\/\/svelte\.dev\/e\//.test(one));
  assert.deepEqual(outside, []);
  assert.equal(html.match(/<(?:link|img|iframe|object)\b[^>]*(?:src|href)="(?!data:)/), null);
  assert.equal(html.match(/<script\b[^>]*\bsrc=/), null);
  assert.ok(html.length < 400_000, `${html.length} bytes`);
});

test('the licences of the code in the page are in it', () => {
  for (const name of ['svelte', 'uplot'])
    assert.match(template(), new RegExp(`contains code of ${name}:\\s[^]*?Permission is hereby granted`));
});

test('the lock file says nothing of where packages came from', () => {
  const lock = readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8');
  assert.equal(lock.match(/:\/\//), null);
});

test('a script that is put into the page does not run', async () => {
  const html = pageWithParts(modelParts({ layers: 1 })).replace(
    '<div id="page">',
    '<script>document.title = "owned"</script><div id="page">',
  );
  const { page, complaints } = await browser.openFile(html);
  assert.match(await page.title(), /^Ulpscope: /);
  assert.match(complaints.join(), /Content Security Policy/);
});

test('a request to outside is refused by the page itself', async () => {
  const { page } = await browser.openFile(pageWithParts(modelParts({ layers: 1 })));
  const answer = await page.evaluate(() =>
    fetch('http://127.0.0.2:9/').then(
      () => 'sent',
      () => 'refused',
    ),
  );
  assert.equal(answer, 'refused');
});

test('a server that has ended is reported where its data is missing', async () => {
  const { page } = await browser.open(modelParts({ layers: 40, chunkRows: 100 }), 'served');
  await page.locator('[data-view="table"] .cell').first().waitFor();
  await page.route('**/parts/**', (route) => route.abort());
  await page.locator('[data-view="table"]').focus();
  await page.keyboard.press('End');
  await eventually(
    () => page.locator('[data-field="row-count"]').innerText(),
    (text) => text.includes('start `ulpscope view` again'),
    'the reason',
  );
});

test('a damaged page keeps its first screen and says what is wrong', async () => {
  const html = pageWithParts(modelParts({ layers: 1 })).replace(/(data-part="manifest">)[^<]{40}/, '$1');
  const { page } = await browser.openDamaged(html);
  assert.match(await page.getByRole('alert').innerText(), /cannot be shown in full: the part "manifest" is damaged/);
  assert.match(await page.locator('#static').innerText(), /The first screen/);
});
