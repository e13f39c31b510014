import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { eventually, pageTests } from './support/cases.ts';
import { modelParts } from './support/model.ts';

const NAMES = [
  '<script>owned=1</script>',
  '<img src=x onerror=alert(1)>',
  `long_${'x'.repeat(4000)}`,
  'abc\u202eevil\u200f שלום',
  'emoji 👩🏽‍💻 🧨',
  'line\nbreak\ttab',
  '"quotes\' & </script><!-- -->',
  '=HYPERLINK("http://example.invalid")',
];

const test = pageTests(() => modelParts({ layers: NAMES.length, moduleNames: NAMES }));

test('names are shown as text, wherever they occur', async ({ page }) => {
  await page.getByRole('button', { name: 'Open all' }).click();
  const tree = page.getByRole('tree');
  await tree.focus();
  await page.keyboard.press('Home');
  const seen = new Set<string>();
  for (let press = 0; press < 30; press += 1) {
    for (const text of await tree.locator('.module-name').allInnerTexts()) seen.add(text);
    await page.keyboard.press('PageDown');
  }
  for (const name of [
    '<script>owned=1</script>',
    '<img src=x onerror=alert(1)>',
    'abc\\u{202e}evil\\u{200f} שלום',
    'emoji 👩🏽\\u{200d}💻 🧨',
    'line\\nbreak\\ttab',
    '"quotes\' & </script><!-- -->',
  ]) {
    assert.ok(seen.has(name), `${name} in ${[...seen].join(' | ')}`);
  }
  assert.ok(
    [...seen].some((name) => /^…x{20,}$/.test(name)),
    'the long name is shortened',
  );
  assert.equal(await page.evaluate(() => 'owned' in window), false, 'nothing of a name ran');
  assert.equal(await page.locator('main img').count(), 0);
  assert.equal(await page.locator('main script').count(), 0);
});

test('a long name does not make the page wider than the window', async ({ page }) => {
  await page.keyboard.press('/');
  await page.keyboard.type('long_xxxx');
  await page.keyboard.press('Enter');
  await eventually(
    () => page.locator('[data-field="call-name"]').innerText(),
    (name) => name.length > 0,
    'selected',
  );
  assert.match(await page.locator('#call dd.name').first().innerText(), /x{4000}/);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
});

test('the csv runs nothing in a spreadsheet', async ({ page }) => {
  await page.getByRole('button', { name: /^Columns/ }).click();
  await page.getByRole('group', { name: 'Columns of the table' }).getByLabel('module').check();
  await page.keyboard.press('Escape');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download csv' }).click(),
  ]);
  const text = readFileSync(await download.path(), 'utf8');
  assert.ok(text.includes('HYPERLINK'));
  assert.ok(!/(^|[,;\n"])[=+@]/.test(text), 'no cell begins with the sign of a formula');
});
