import assert from 'node:assert/strict';
import { eventually, pageTests, shows } from './support/cases.ts';

const test = pageTests({});

test('the first screen answers what broke, where, how sure and what to do', async ({ page }) => {
  assert.equal(
    await page.locator('h1').innerText(),
    'Functional.gelu.2 returns a different result from matching inputs.',
  );
  assert.match(await page.locator('.badge').innerText(), /DIFFER/);
  const card = await page.locator('[data-field="first-divergence"]').innerText();
  for (const text of [
    'Functional.gelu.2.forward',
    'layers.2.mlp',
    'model.py:48',
    'output.0',
    '0.00327',
    '9.13e-7',
    '3,580 ×',
    'very high (0.98)',
    '137 calls inherit',
  ]) {
    assert.ok(card.includes(text), `${text} in ${card}`);
  }
  assert.match(await page.locator('.next').innerText(), /ulpscope diff runs\/npu/);
  assert.equal(await page.locator('#static').count(), 0, 'the first screen in plain html is replaced');
  assert.equal(await page.title(), 'Ulpscope: runs/npu against runs/gpu');
});

test('the share of each class is drawn', async ({ page }) => {
  const widths = await page.locator('.shares span').evaluateAll((all) => all.map((one) => one.clientWidth));
  assert.equal(widths.length, 5);
  assert.ok(
    widths.every((width) => width >= 4),
    String(widths),
  );
  assert.ok((widths[2] ?? 0) > (widths[0] ?? 0), 'more calls inherit an error than introduce one');
});

test('the parts of the page come in order', async ({ page }) => {
  const headings = await page.locator('main > section').evaluateAll((all) => all.map((one) => one.id));
  assert.deepEqual(headings, ['verdict', 'glance', 'model', 'call', 'table']);
});

test('the first divergence is selected, and its name leads to it', async ({ page }) => {
  await shows(page, 'Functional.gelu.2.forward');
  await page.locator('[data-list="producers"] button').first().click();
  await shows(page, 'Functional.linear.7.forward');
  await page.locator('[data-field="first-divergence"] button.link').click();
  await shows(page, 'Functional.gelu.2.forward');
  const top = () => page.locator('#call').evaluate((one) => one.getBoundingClientRect().top / innerHeight);
  await eventually(top, (at) => at < 0.5, 'the call is in view');
});

test('the explanation can be read in full', async ({ page }) => {
  const details = page.locator('details.explanation');
  assert.equal(await details.getAttribute('open'), null);
  await details.locator('summary').click();
  assert.match(await details.innerText(), /That is 3,580 × what rounding and the inputs allow/);
});

test('classes are listed with their marks, gravest first', async ({ page }) => {
  const words = await page.locator('.legend .word').allInnerTexts();
  assert.deepEqual(words, ['diverged here', 'different program', 'inherited', 'noise', 'equal']);
  assert.equal(await page.locator('.legend svg').count(), 5);
});
